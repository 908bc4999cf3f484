//! HTTP over sockets: a server for each host, and the one connection of the host's actor to it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, LOCATION};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use turnwise::time::Timers;

use crate::crawl::Line;
use crate::faults::Origin;
use crate::site::Response;

/// The maximum number of bytes that are read of an answer.
const MOST: usize = 64 << 20;

/// The pause after a listener has failed: the system may have descriptors again then.
const AGAIN: Duration = Duration::from_millis(10);

/// Serves a host on a free port of the loopback interface, as long as the runtime exists.
///
/// # Errors
/// The system provides no port.
pub async fn serve(origin: Arc<Origin>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                Timers::global().sleep(AGAIN).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let origin = origin.clone();
            let service = service_fn(move |request| answer(origin.clone(), request));
            // A closed connection is not an error of the server.
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(address)
}

async fn answer(
    origin: Arc<Origin>,
    request: Request<Incoming>,
) -> io::Result<hyper::Response<Full<Bytes>>> {
    let path = request.uri().path();
    let broken = || io::Error::from(io::ErrorKind::ConnectionAborted);
    let response = origin.answer(path).await.ok_or_else(broken)?;
    let kind = if response.html { "text/html" } else { "application/octet-stream" };
    let mut head = hyper::Response::builder().status(response.status).header(CONTENT_TYPE, kind);
    if let Some(place) = response.location {
        head = head.header(LOCATION, place);
    }
    head.body(Full::new(response.body.into())).map_err(io::Error::other)
}

/// The connection to a host. It is opened on first use, and again after it was lost.
pub struct Connection {
    /// Turns may run on threads without a runtime, such as rayon's.
    runtime: Handle,
    name: String,
    address: SocketAddr,
    kept: Option<SendRequest<Empty<Bytes>>>,
}

impl Connection {
    /// Makes a connection that is not open yet, in this runtime.
    pub fn new(runtime: Handle, name: &str, address: SocketAddr) -> Self {
        Connection { runtime, name: name.into(), address, kept: None }
    }

    async fn dial(&self) -> Result<SendRequest<Empty<Bytes>>, String> {
        let address = self.address;
        let dialled = self.runtime.spawn(async move {
            let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
            let _ = stream.set_nodelay(true);
            let made = handshake(TokioIo::new(stream)).await;
            let (requests, connection) = made.map_err(|error| error.to_string())?;
            // It ends with `requests`; the request that runs gets the error.
            tokio::spawn(connection);
            Ok(requests)
        });
        dialled.await.map_err(|error| error.to_string())?
    }
}

impl Line for Connection {
    async fn get(&mut self, path: &str) -> Result<Response, String> {
        // A cancelled request closes its connection: so its answer is not read later.
        let mut requests = match self.kept.take() {
            Some(kept) if !kept.is_closed() => kept,
            _ => self.dial().await?,
        };
        let said = |_: hyper::Error| "the connection broke".to_owned();
        requests.ready().await.map_err(said)?;
        let request = Request::get(path).header(HOST, &self.name).body(Empty::new());
        let request = request.map_err(|error| error.to_string())?;
        let (head, body) = requests.send_request(request).await.map_err(said)?.into_parts();
        let body = Limited::new(body, MOST).collect().await.map_err(|error| error.to_string())?;
        self.kept = Some(requests);
        let text = |header| head.headers.get(header).and_then(|value| value.to_str().ok());
        Ok(Response {
            status: head.status.as_u16(),
            html: text(CONTENT_TYPE).is_some_and(|kind| kind.starts_with("text/html")),
            location: text(LOCATION).map(str::to_owned),
            body: body.to_bytes().into(),
        })
    }
}

/// Returns a status as text.
pub(crate) fn status(code: u16) -> String {
    StatusCode::from_u16(code).map_or_else(|_| code.to_string(), |status| status.to_string())
}
