//! `ppgnn serve`: pages in a browser that follow runs.
//!
//! One thread listens and another one answers, so that serving never takes more than a core, and little of that. Nothing is written.

mod guard;
mod logs;
mod site;

use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response, header};
use ppgnn_stages::contract::Registry;
use tokio::sync::oneshot;

use super::failure::Failure;
use super::interrupt::interruptible;
use super::project::{DataArgs, StoreArgs};
use super::{exit, print};
use guard::{Answer, Asked, Guard};
use site::Site;

/// Follow runs in a browser: progress, tables as they fill in, curves, failures, history, reports
///
/// Shows every pipeline of a folder and every run in the store, also one that is going on. It reads the store and changes nothing, so it can be
/// started and stopped at any time. Only this machine is answered, unless --host says otherwise; then the address that is printed has a
/// token, without which nothing is shown.
#[derive(clap::Args)]
pub struct Args {
    /// Folder with pipeline files, in it or in `pipelines` there
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Port to listen on; 0 for any that is free
    #[arg(long, default_value_t = 8020)]
    port: u16,
    /// Address to listen on, such as 0.0.0.0 for all of this machine
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Requests that may wait for an answer.
const MOST_WAITING: usize = 32;
/// How often it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// A request, and where its answer goes.
type Waiting = (Asked, oneshot::Sender<Answer>);

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let folder = std::fs::canonicalize(&args.folder).ok().filter(|folder| folder.is_dir());
    let no_folder = || Failure::usage(format!("`{}` is not a folder", args.folder.display()), None);
    let folder = folder.ok_or_else(no_folder)?;
    args.store.look()?;
    let token = (!args.host.is_loopback()).then(token).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::unexpected(format!("cannot start to serve: {e}")))?;
    let address = SocketAddr::new(args.host, args.port);
    let bound = runtime.block_on(tokio::net::TcpListener::bind(address));
    let bound = bound.and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) = bound.map_err(|error| {
        let hint = "--port 0 takes any port that is free";
        Failure::usage(format!("cannot listen on {address}: {error}"), Some(hint))
    })?;
    let query = token.as_ref().map(|token| format!("?token={token}")).unwrap_or_default();
    print(&format!("http://{address}/{query}\n"))?;
    let guard = Guard::new(address, token);
    let site = Site::new(folder, args.store.clone(), args.data.clone(), registry);
    let cancel = interruptible();
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<Waiting>(MOST_WAITING);
        scope.spawn(move || {
            let mut site = site;
            for (asked, back) in receiver {
                // Whoever has left needs no answer.
                let _ = back.send(guard.refusal(&asked).unwrap_or_else(|| site.answer(&asked)));
            }
        });
        let served = runtime.block_on(listen(listener, sender, cancel));
        // Connections that are open keep the other thread waiting.
        drop(runtime);
        served
    })
    .map_err(|e| Failure::unexpected(format!("cannot serve: {e}")))?;
    Ok(exit::DONE)
}

/// Hands requests on until it is to stop.
async fn listen(
    listener: tokio::net::TcpListener,
    sender: SyncSender<Waiting>,
    cancel: &'static AtomicBool,
) -> std::io::Result<()> {
    let stopped = async || {
        while !cancel.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK).await;
        }
    };
    let answer = move |request: Request<Body>| {
        let (back, answer) = oneshot::channel();
        let sent = sender.try_send((asked(&request), back));
        async move {
            let answer = match sent {
                Ok(()) => answer.await.unwrap_or_else(|_| Answer::text(500, "the request could not be answered")),
                Err(TrySendError::Full(_)) => Answer::text(503, "too many requests are waiting"),
                Err(TrySendError::Disconnected(_)) => Answer::text(500, "nobody answers any more"),
            };
            response(answer)
        }
    };
    let serving = axum::serve(listener, axum::Router::new().fallback(answer)).into_future();
    // Connections that are kept open are no reason to wait.
    tokio::select! {
        served = serving => served,
        () = stopped() => Ok(()),
    }
}

/// What of a request counts.
fn asked(request: &Request<Body>) -> Asked {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Asked {
        method: request.method().as_str().to_owned(),
        path: request.uri().path().to_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        host: header(header::HOST),
        origin: header(header::ORIGIN),
        cookie: header(header::COOKIE),
    }
}

fn response(answer: Answer) -> Response<Body> {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers() {
        response = response.header(name, value);
    }
    response.body(Body::from(answer.body)).unwrap_or_default()
}

/// A secret that nobody can guess.
fn token() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let drawn = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    drawn.map_err(|e| Failure::unexpected(format!("cannot draw a token from /dev/urandom: {e}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
