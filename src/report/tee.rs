//! `Tee`: gives every event to several sinks, in order.

use crate::run::{Event, EventSink};

/// A sink that passes every event on to others.
pub struct Tee<'a>(pub Vec<&'a dyn EventSink>);

impl EventSink for Tee<'_> {
    fn event(&self, event: &Event) {
        self.0.iter().for_each(|sink| sink.event(event));
    }
}
