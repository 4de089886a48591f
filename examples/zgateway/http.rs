//! How the gateway does, by HTTP: `/metrics` for Prometheus, `/status` for people.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus::proto::MetricFamily;
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;

use crate::tools::status;

/// Serves in a thread of its own until it is dropped.
pub struct Server {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Serves what is in `registry`, once `refresh` has brought it up to date.
pub fn serve(
    addr: SocketAddr,
    registry: Registry,
    refresh: impl Fn() + Send + Sync + 'static,
) -> Result<Server> {
    let what = || format!("cannot serve metrics at {addr}");
    let gather = Arc::new(move || {
        refresh();
        registry.gather()
    });
    let status = Arc::clone(&gather);
    let pages = Router::new()
        .route("/metrics", get(async move || metrics(&gather())))
        .route("/status", get(async move || status::table(&status())));

    let runtime = runtime::Builder::new_current_thread().enable_all().build().with_context(what)?;
    let listener = runtime.block_on(TcpListener::bind(addr)).with_context(what)?;
    let address = listener.local_addr().with_context(what)?;
    let (end, ended) = oneshot::channel();
    let serve = async move {
        tokio::select! {
            // It ends by a failure only, and has none: it tries again what cannot be accepted.
            _ = axum::serve(listener, pages) => {}
            _ = ended => {}
        }
    };
    let thread = thread::Builder::new()
        .name("metrics".into())
        .spawn(move || runtime.block_on(serve))
        .with_context(what)?;
    Ok(Server { address, end: Some(end), thread: Some(thread) })
}

fn metrics(families: &[MetricFamily]) -> impl IntoResponse + use<> {
    match TextEncoder::new().encode_to_string(families) {
        Ok(text) => (StatusCode::OK, [(CONTENT_TYPE, TEXT_FORMAT)], text),
        Err(error) => {
            let kind = (CONTENT_TYPE, "text/plain");
            (StatusCode::INTERNAL_SERVER_ERROR, [kind], error.to_string())
        }
    }
}

impl Server {
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        // One that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use prometheus::IntGauge;

    use super::*;

    fn served() -> Server {
        let registry = Registry::new();
        let gauge = IntGauge::new("answers", "How often it was asked.").unwrap();
        registry.register(Box::new(gauge.clone())).unwrap();
        serve("127.0.0.1:0".parse().unwrap(), registry, move || gauge.inc()).unwrap()
    }

    /// What comes back for a request, all of it.
    fn ask(server: &Server, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: it\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn metrics_are_fresh_and_typed() {
        let server = served();
        for asked in 1..=3 {
            let answer = ask(&server, "GET", "/metrics?x=y");
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.contains("content-type: text/plain; version=0.0.4\r\n"), "{answer}");
            assert!(answer.ends_with(&format!("\nanswers {asked}\n")), "{answer}");
        }
        let status = ask(&server, "GET", "/status");
        assert!(status.contains("200 OK") && status.contains("\naccepted"), "{status}");
    }

    #[test]
    fn other_pages_and_methods_are_refused() {
        let server = served();
        assert!(ask(&server, "GET", "/").starts_with("HTTP/1.1 404 "));
        assert!(ask(&server, "POST", "/metrics").starts_with("HTTP/1.1 405 "));
    }

    #[test]
    fn it_ends_with_its_server_whoever_is_connected_and_the_address_is_free() {
        let server = served();
        let address = server.address();
        let taken = serve(address, Registry::new(), || {}).err().unwrap();
        assert_eq!(taken.to_string(), format!("cannot serve metrics at {address}"));
        let mut half = TcpStream::connect(address).unwrap();
        half.write_all(b"GET /metr").unwrap();
        drop(server);
        serve(address, Registry::new(), || {}).unwrap();
    }
}
