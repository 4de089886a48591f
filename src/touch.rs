//! How a reactor learns that somebody used a socket that it watches.
//!
//! libzmq makes a socket's descriptor readable once per piece of news, and any operation on the
//! socket may take that news in. Whoever waits on the descriptor must therefore look at the socket
//! again after every operation, and this tells it which.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use crate::ffi::lock;

/// The sockets that were used since they were last looked at, by the watcher's numbers. Shared
/// with the sockets, which may move between threads; each is used by one at a time.
#[derive(Default)]
pub(crate) struct Touched(Mutex<Vec<usize>>);

impl Touched {
    /// Moves the numbers to `touched`.
    pub(crate) fn take(&self, touched: &mut Vec<usize>) {
        touched.append(&mut lock(&self.0));
    }
}

/// A socket's side of it.
pub(crate) struct Watch {
    list: Arc<Touched>,
    key: usize,
    on_list: Cell<bool>,
}

impl Watch {
    pub(crate) fn new(list: Arc<Touched>, key: usize) -> Watch {
        Watch { list, key, on_list: Cell::new(false) }
    }

    pub(crate) fn is_by(&self, list: &Arc<Touched>) -> Option<usize> {
        Arc::ptr_eq(&self.list, list).then_some(self.key)
    }

    #[inline]
    pub(crate) fn touch(&self) {
        if !self.on_list.replace(true) {
            lock(&self.list.0).push(self.key);
        }
    }

    pub(crate) fn looked_at(&self) {
        self.on_list.set(false);
    }
}
