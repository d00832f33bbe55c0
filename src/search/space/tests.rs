use serde_json::json;

use super::*;

fn param(path: &str, domain: Domain) -> Param {
    Param { path: path.into(), domain, when: None }
}

fn when(path: &str, domain: Domain, other: &str, values: Vec<Value>) -> Param {
    Param { when: Some(Condition { path: other.into(), values }), ..param(path, domain) }
}

#[test]
fn a_value_stands_where_its_coordinate_says_and_back() {
    let domains = [
        Domain::Choice(vec![json!(0.001), json!(0.01), json!(0.1)]),
        Domain::Choice(vec![json!("ppr"), json!("random")]),
        Domain::Int { from: 1, to: 10, log: false },
        Domain::Int { from: 1, to: 1024, log: true },
        Domain::Float { from: 0.0, to: 1.0, log: false },
        Domain::Float { from: 1e-5, to: 1e-1, log: true },
    ];
    for domain in domains {
        for step in 0..=100 {
            let value = domain.value(f64::from(step) / 100.0);
            let again = domain.value(domain.coordinate(&value).unwrap());
            let (a, b) = (value.as_f64(), again.as_f64());
            let same = value == again || a.zip(b).is_some_and(|(a, b)| (a - b).abs() <= 1e-5 * a.abs());
            assert!(same, "{domain:?}: {value} became {again}");
        }
    }
}

#[test]
fn ends_of_ranges_are_reached_and_a_logarithmic_middle_is_geometric() {
    let int = Domain::Int { from: 1, to: 4, log: false };
    assert_eq!([0.0, 0.24, 0.26, 1.0].map(|at| int.value(at)), [json!(1), json!(1), json!(2), json!(4)]);
    let float = Domain::Float { from: 1e-4, to: 1e-2, log: true };
    assert_eq!((float.value(0.0), float.value(1.0)), (json!(1e-4), json!(1e-2)));
    assert!((float.value(0.5).as_f64().unwrap() - 1e-3).abs() < 1e-15);
}

#[test]
fn only_ascending_numbers_have_an_order() {
    assert!(Domain::Choice(vec![json!(1), json!(2.5), json!(10)]).is_ordered());
    assert!(!Domain::Choice(vec![json!(3), json!(1)]).is_ordered());
    assert!(!Domain::Choice(vec![json!("a"), json!("b")]).is_ordered());
}

#[test]
fn a_parameter_exists_where_its_condition_holds() {
    let space = Space::new(vec![
        when("train.alpha", Domain::Float { from: 0.0, to: 1.0, log: false }, "train.init", vec![json!("ppr")]),
        param("train.init", Domain::Choice(vec![json!("ppr"), json!("random")])),
    ])
    .unwrap();
    assert_eq!(space.params()[0].path, "train.init", "what decides stands first");
    assert_eq!(space.settings(&[0.1, 0.5]).len(), 2);
    let random = space.settings(&[0.9, 0.5]);
    assert_eq!(random, Settings::from([("train.init".into(), json!("random"))]));
    assert_eq!(space.point(&random).unwrap(), [Some(0.75), None]);
    assert_eq!(space.point(&Settings::from([("train.init".into(), json!("null"))])), None);
}

#[test]
fn faults_name_the_parameter() {
    let faults = |params: Vec<Param>| -> Vec<String> {
        Space::new(params).unwrap_err().into_iter().map(|f| format!("{}: {}", f.path, f.message)).collect()
    };
    let int = |from, to| Domain::Int { from, to, log: false };
    assert_eq!(faults(vec![]), [": the space is empty"]);
    assert_eq!(faults(vec![param("a", int(3, 2))]), ["a: goes from `3` to `2`"]);
    assert_eq!(faults(vec![param("a", int(1, 2)), param("a", int(1, 2))]), ["a: is searched twice"]);
    assert_eq!(faults(vec![param("a", Domain::Choice(vec![]))]), ["a: has no values"]);
    let twice = Domain::Choice(vec![json!(1), json!(1)]);
    assert_eq!(faults(vec![param("a", twice)]), ["a: lists `1` twice"]);
    let log = Domain::Float { from: 0.0, to: 1.0, log: true };
    assert_eq!(faults(vec![param("a", log)]), ["a: starts at `0` on a logarithmic scale"]);
    let endless = Domain::Float { from: 0.0, to: f64::INFINITY, log: false };
    assert_eq!(faults(vec![param("a", endless)]), ["a: goes from `0` to `inf`"]);
    let unknown = when("a", int(1, 2), "b", vec![json!(1)]);
    assert_eq!(faults(vec![unknown]), ["a: depends on `b`, which the space does not have"]);
    let never = vec![when("a", int(1, 2), "b", vec![json!(9)]), param("b", int(1, 2))];
    assert_eq!(faults(never), ["a: depends on `b` being `9`, which it never is"]);
    let cycle = vec![when("a", int(1, 2), "b", vec![json!(1)]), when("b", int(1, 2), "a", vec![json!(1)])];
    assert_eq!(
        faults(cycle),
        ["a: depends on itself through its condition", "b: depends on itself through its condition"]
    );
}

#[test]
fn settings_are_counted_with_their_conditions() {
    let choice = |count: i64| Domain::Choice((0..count).map(Value::from).collect());
    let space =
        Space::new(vec![param("a", choice(3)), param("b", Domain::Int { from: 1, to: 5, log: false })]).unwrap();
    assert_eq!(space.count(), Some(15));
    let conditional = vec![param("a", choice(3)), when("b", choice(4), "a", vec![json!(1)])];
    assert_eq!(Space::new(conditional).unwrap().count(), Some(4 + 2));
    let large = (0..20).map(|i| param(&format!("p{i}"), choice(100))).collect();
    assert_eq!(Space::new(large).unwrap().count(), Some(u64::MAX));
    let endless = vec![param("a", Domain::Float { from: 0.0, to: 1.0, log: false })];
    assert_eq!(Space::new(endless).unwrap().count(), None);
}
