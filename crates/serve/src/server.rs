//! HTTP server on loopback, with a random token in the path, read-only, without access for other sites.

use crate::guard;
use crate::page;
use crate::request_coalescing::RequestCoalescing;
use axum::body::Bytes;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use stackline_query::{Arguments, OpenRun, QueryError, READ_FILES, run_query};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::spawn_blocking;

/// Size limit of cached answers in bytes.
const MAX_CACHED_BYTES: usize = 128 << 20;

/// Error of starting the server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is in use or not permitted.
    #[error("cannot listen on port {port}: {error}; --port 0 chooses a free port")]
    Listen {
        /// Requested port.
        port: u16,
        /// Error of the system.
        error: io::Error,
    },
    /// No thread or no randomness is available.
    #[error("cannot start the server: {0}")]
    Start(String),
}

/// HTTP server of a run's web page, bound to a port but not yet running.
#[derive(Debug)]
pub struct Server {
    /// URL of the page, including the token.
    pub url: String,
    listener: std::net::TcpListener,
    router: Router,
    shared: Arc<Shared>,
}

/// Server state shared by all requests: the run, token, allowed hosts, and answer cache.
#[derive(Debug)]
struct Shared {
    opened: Arc<OpenRun>,
    token: String,
    hosts: Vec<String>,
    kept: Mutex<AnswerCache>,
    coalescing: RequestCoalescing<ComputedAnswer>,
}

/// An answer or its error; `None` if the computation failed.
type ComputedAnswer = Option<Result<Bytes, Arc<QueryError>>>;

/// Cache of answers as bytes, by query and arguments. The oldest answers are evicted first.
#[derive(Debug, Default)]
struct AnswerCache {
    answers: BTreeMap<String, Bytes>,
    order: VecDeque<String>,
    bytes: usize,
}

/// Create a server of a run's web page, bound to a loopback port (0: a free one). `hosts` are the names that proxies
/// send as `Host`.
///
/// # Errors
/// If the port is not available.
pub fn serve(opened: Arc<OpenRun>, port: u16, hosts: Vec<String>) -> Result<Server, ServeError> {
    let listen = |error| ServeError::Listen { port, error };
    let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).map_err(listen)?;
    listener.set_nonblocking(true).map_err(listen)?;
    let port = listener.local_addr().map_err(listen)?.port();
    let token = guard::token().map_err(|error| ServeError::Start(error.to_string()))?;
    let url = format!("http://127.0.0.1:{port}/{token}/");
    let shared =
        Arc::new(Shared { opened, token, hosts, kept: Mutex::default(), coalescing: RequestCoalescing::default() });
    let router = Router::new()
        .route("/{token}/", get(index))
        .route("/{token}/query/{name}", get(query))
        .fallback(|| async { StatusCode::NOT_FOUND })
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), check_request))
        .with_state(Arc::clone(&shared));
    Ok(Server { url, listener, router, shared })
}

impl Server {
    /// Serve until the process is interrupted (Ctrl-C, SIGTERM). `ready` is called after both the socket and the
    /// signal handlers work. A URL printed earlier could be used too soon.
    ///
    /// # Errors
    /// Same as [`Server::run`].
    pub fn run_until_interrupted(self, ready: impl FnOnce()) -> Result<(), ServeError> {
        let runtime = runtime()?;
        let interrupts = runtime.block_on(async { Interrupt::new() }).map_err(start_error)?;
        ready();
        self.run_on(runtime, interrupts.received())
    }

    /// Serve the web page and its queries until the future `until` is done.
    ///
    /// # Errors
    /// If the system provides no threads, or the socket fails.
    pub fn run(self, until: impl Future<Output = ()>) -> Result<(), ServeError> {
        self.run_on(runtime()?, until)
    }

    /// Serve on a separate thread until the returned value is dropped.
    ///
    /// # Errors
    /// If the system provides no threads.
    pub fn start(self) -> Result<Running, ServeError> {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let runtime = runtime()?;
        let serve = move || {
            // Later errors fail only the request in progress.
            let _ = self.run_on(runtime, async { stopped.await.unwrap_or_default() });
        };
        let thread = std::thread::Builder::new().name("stackline-page".to_owned()).spawn(serve).map_err(start_error)?;
        Ok(Running { stop: Some(stop), thread: Some(thread) })
    }

    /// Serve on a runtime until the future `until` is done, and compute the page's first answers meanwhile.
    fn run_on(self, runtime: Runtime, until: impl Future<Output = ()>) -> Result<(), ServeError> {
        runtime.spawn(compute_first_answers(self.shared));
        let served = runtime.block_on(async {
            let listener = TcpListener::from_std(self.listener)?;
            let serving = axum::serve(listener, self.router).into_future();
            tokio::select! {
                served = serving => served,
                () = until => Ok(()),
            }
        });
        // A query in progress must not delay the end of the program.
        runtime.shutdown_background();
        served.map_err(start_error)
    }
}

/// Handle of a server on a separate thread. The server stops when the handle is dropped.
#[derive(Debug)]
pub struct Running {
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Convert an I/O error to the error of starting the server.
fn start_error(error: io::Error) -> ServeError {
    ServeError::Start(error.to_string())
}

/// Create the asynchronous runtime of the server, with two worker threads.
fn runtime() -> Result<Runtime, ServeError> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(start_error)
}

/// Interrupt and termination signals, which stop the server.
#[cfg(unix)]
struct Interrupt(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

#[cfg(unix)]
impl Interrupt {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self(signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    }

    async fn received(mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Interrupt;

#[cfg(not(unix))]
impl Interrupt {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn received(self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}

/// Middleware that rejects requests without the token or with another host name (status 403), and adds security headers
/// to each response.
async fn check_request(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let token = request.uri().path().trim_start_matches('/').split('/').next().unwrap_or_default();
    let known = guard::are_equal(token, &shared.token);
    let mut response = if guard::is_own_host(request.headers(), &shared.hosts) && known {
        next.run(request).await
    } else {
        StatusCode::FORBIDDEN.into_response()
    };
    for (name, value) in guard::headers() {
        response.headers_mut().insert(name, value);
    }
    response
}

/// Send the web page, compressed if the browser accepts gzip.
async fn index(headers: HeaderMap) -> Response {
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    if accepts_gzip(&headers) {
        let packed = HeaderValue::from_static("gzip");
        return ([(header::CONTENT_TYPE, html), (header::CONTENT_ENCODING, packed)], page::COMPRESSED_PAGE)
            .into_response();
    }
    ([(header::CONTENT_TYPE, html)], page::html()).into_response()
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT_ENCODING).and_then(|all| all.to_str().ok()).is_some_and(|all| all.contains("gzip"))
}

/// Send the answer to a query: cached, or computed now.
async fn query(
    State(shared): State<Arc<Shared>>,
    Path((_, name)): Path<(String, String)>,
    Query(arguments): Query<BTreeMap<String, String>>,
) -> Response {
    let arguments = Arguments::new(arguments);
    let key = format!("{name}\n{}", arguments.key());
    let kept = shared.kept.lock().unwrap_or_else(PoisonError::into_inner).answers.get(&key).cloned();
    let bytes = match kept {
        Some(bytes) => bytes,
        None => match compute_answer(shared, key, name, arguments).await {
            Some(Ok(bytes)) => bytes,
            Some(Err(error)) => return refused(&error),
            None => {
                let message = "an internal error of the Stackline server stopped this query; reload the page";
                return (StatusCode::SERVICE_UNAVAILABLE, message).into_response();
            }
        },
    };
    let binary = HeaderValue::from_static("application/octet-stream");
    ([(header::CONTENT_TYPE, binary)], bytes).into_response()
}

/// Compute the page's first queries while the browser still loads the page, so that its requests share the
/// computations.
async fn compute_first_answers(shared: Arc<Shared>) {
    let opened = Arc::clone(&shared.opened);
    let Ok(questions) = spawn_blocking(move || opened.urgent_questions()).await else { return };
    for (name, arguments) in questions {
        let key = format!("{name}\n{}", arguments.key());
        tokio::spawn(compute_answer(Arc::clone(&shared), key, name.to_owned(), arguments));
    }
}

/// Compute an answer on a blocking thread, once for all concurrent requests of the same query. The computation
/// continues to its end even if the request is dropped.
async fn compute_answer(shared: Arc<Shared>, key: String, name: String, arguments: Arguments) -> ComputedAnswer {
    // Source files can change at any time, so their answers are not cached.
    let reads_files = READ_FILES.contains(&name.as_str());
    let flight = async move {
        let make = || async {
            let opened = Arc::clone(&shared.opened);
            let work = move || run_query(&opened, &name, &arguments).map(|answer| answer.to_bytes());
            let made = spawn_blocking(work).await.ok()?;
            let keep = |bytes| if reads_files { Bytes::from(bytes) } else { shared.cache_answer(key.clone(), bytes) };
            Some(made.map(keep).map_err(Arc::new))
        };
        shared.coalescing.join(&key, make).await
    };
    tokio::spawn(flight).await.ok().flatten()
}

impl Shared {
    /// Cache the answer bytes of a query, unless they exceed a quarter of the size limit, and evict the oldest answers.
    /// Returns the bytes.
    fn cache_answer(&self, key: String, bytes: Vec<u8>) -> Bytes {
        let bytes = Bytes::from(bytes);
        let size = key.len() + bytes.len();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if size > MAX_CACHED_BYTES / 4 || kept.answers.contains_key(&key) {
            return bytes;
        }
        while kept.bytes + size > MAX_CACHED_BYTES {
            let Some(oldest) = kept.order.pop_front() else { break };
            let old = kept.answers.remove(&oldest).map_or(0, |old| old.len());
            kept.bytes -= oldest.len() + old;
        }
        kept.bytes += size;
        kept.order.push_back(key.clone());
        kept.answers.insert(key, bytes.clone());
        bytes
    }
}

/// Response to a failed query: its error message as JSON, with the matching status code (400, 404 or 422).
fn refused(error: &QueryError) -> Response {
    let status = match error {
        QueryError::NoQuery { .. } | QueryError::Missing { .. } => StatusCode::NOT_FOUND,
        QueryError::Argument { .. } | QueryError::NoArgument { .. } => StatusCode::BAD_REQUEST,
        QueryError::Unavailable { .. } => StatusCode::UNPROCESSABLE_ENTITY,
    };
    (status, Json(json!({"error": error.to_string()}))).into_response()
}
