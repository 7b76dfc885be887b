//! A proxy between the API server and the operator, or the `spark-submit`s of a node. The proxy holds requests, ends
//! connections and becomes unreachable when the test asks for it.

use super::{DEADLINE, PAUSE};
use crate::apiserver::prelude::*;
use certificates::Certificates;
use futures::future::join;
use http_body_util::{BodyExt, Either, Full, combinators::BoxBody};
use hyper::{
    Request, Response, Uri,
    body::{Frame, Incoming},
    client::conn::http1::{self as client, SendRequest},
    header::{CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER},
    server::conn::http1 as server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::Config;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::{error::Error, future::pending, mem, sync::OnceLock, time::Instant};
use tokio::{
    io::{DuplexStream, copy_bidirectional, duplex},
    net::TcpSocket,
    sync::{Mutex as AsyncMutex, oneshot, watch},
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

type Failure = Box<dyn Error + Send + Sync>;
/// A response of the API server, or one of the proxy itself.
type Answer = Response<Either<BoxBody<Bytes, hyper::Error>, Full<Bytes>>>;

/// The number of connections that may wait to be accepted; no test opens so many.
const BACKLOG: u32 = 1024;
/// The number of bytes that a connection buffers until they are read, as a socket does.
const BUFFER: usize = 64 * 1024;

/// The proxy; it and its connections end when this value is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    /// The CA that clients have to trust, in PEM.
    ca: String,
    shared: Arc<Shared>,
    line: watch::Sender<Line>,
    _background: Background,
}

/// A kind of request to the API server: the method and a part of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub method: &'static str,
    pub path: &'static str,
}

/// The point in time at which a request is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The API server has not received the request.
    Before,
    /// The API server has carried out the request, and the client has no answer yet.
    After,
}

/// The state of the connection to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Up,
    /// The API server does not run: connections are cut and new ones refused.
    Refused,
    /// A partition: bytes are delayed until the line is up again.
    Silent,
    /// A partition, as the kernels at both ends see it: packets are dropped.
    Dropped,
    /// Another machine takes over the address: nothing is transferred, and never will be on existing connections. A
    /// client that only listens never notices.
    Lost,
}

/// A trap that waits for a request.
pub(crate) struct Trap {
    call: Call,
    caught: oneshot::Receiver<Held>,
}

/// A request that is held; the client's connection is closed when this value is dropped.
pub(crate) struct Held(oneshot::Sender<Verdict>);

enum Verdict {
    GoOn,
    Reset,
}

/// The instructions of the test, and the requests so far.
#[derive(Default)]
struct Shared {
    traps: Mutex<Vec<Set>>,
    guard: OnceLock<Guard>,
    requests: Mutex<Vec<(Method, Uri)>>,
    /// The number of these requests that the client has given up after [`LONG`].
    given_up: AtomicUsize,
    /// The number of bytes of all bodies of requests, and of those of answers, except definitions.
    requested: AtomicUsize,
    answered: AtomicUsize,
}

/// How long the API server has to be silent before a client may give up a request. The operator waits for 5 s.
const LONG: Duration = Duration::from_secs(4);

/// A request that has no answer yet. It is dropped when the client gives it up.
struct Waiting<'a>(&'a AtomicUsize, Instant);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_add((self.1.elapsed() > LONG).into(), Ordering::Relaxed);
    }
}

/// A trap that has not caught a request yet.
struct Set {
    call: Call,
    /// The text that the request's body has to contain.
    says: &'static str,
    moment: Moment,
    catch: oneshot::Sender<Held>,
}

/// Chooses the faults that happen to a request, one after the other. Without faults, the proxy forwards the request to
/// the API server.
pub(crate) type Guard = Box<dyn Fn(&Request<Bytes>) -> Vec<Fault> + Send + Sync>;

/// A fault that happens to a request.
pub(crate) enum Fault {
    /// The connection is cut.
    Cut(Moment),
    /// The proxy answers with this status, and the API server does not receive the request.
    Refused(StatusCode),
    /// The request reaches the API server after this delay.
    Late(Duration),
    /// The request is held until the receiver decides how it continues.
    Held(Moment, oneshot::Sender<Held>),
}

impl Proxy {
    /// Starts a proxy for the API server of the test's `KUBECONFIG`.
    pub(crate) async fn start() -> Self {
        let api_server = ApiServer::infer().await;
        let certificates = Certificates::generate(&[Ipv4Addr::LOCALHOST.to_string()], now()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(identity(&certificates)));
        let (line, seen) = watch::channel(Line::Up);
        let shared = Arc::<Shared>::default();
        let door = Door { acceptor, api_server, shared: Arc::clone(&shared), line: seen };

        let background = Background::start();
        let socket = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = socket.local_addr().unwrap();
        background.spawn(door.keep(address, socket));
        Self { address, ca: certificates.ca_certificate, shared, line, _background: background }
    }

    /// Returns the cluster of a kubeconfig for the API server behind the proxy.
    pub(crate) fn cluster(&self) -> Value {
        json!({
            "server": format!("https://{}", self.address),
            "certificate-authority-data": ByteString(self.ca.clone().into_bytes()),
        })
    }

    /// Writes the administrator's kubeconfig for the proxied API server to a file in `folder`; returns its path.
    pub(crate) fn kubeconfig(&self, folder: &Path) -> String {
        let mut config = calls::kubeconfig();
        config["clusters"][0]["cluster"] = self.cluster();
        let file = folder.join(format!("by-proxy-{}.kubeconfig", self.address.port()));
        fs::write(&file, config.to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// Holds the next request of the kind `call` at this moment.
    pub(crate) fn hold(&self, call: Call, moment: Moment) -> Trap {
        self.hold_saying("", call, moment)
    }

    /// Holds the next request of the kind `call` whose body contains `says`.
    pub(crate) fn hold_saying(&self, says: &'static str, call: Call, moment: Moment) -> Trap {
        let (catch, caught) = oneshot::channel();
        self.shared.traps.lock().unwrap().push(Set { call, says, moment, catch });
        Trap { call, caught }
    }

    /// Returns the method and the URI of every request so far, except dry runs.
    pub(crate) fn requests(&self) -> Vec<(Method, Uri)> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Returns how many of [`Self::requests`] the client has given up because the API server did not answer for [`LONG`].
    pub(crate) fn given_up(&self) -> usize {
        self.shared.given_up.load(Ordering::Relaxed)
    }

    /// Returns those of [`Self::requests`] that change something in `namespace`, except the renewals of a Lease.
    pub(crate) fn writes_in(&self, namespace: &str) -> Vec<(Method, Uri)> {
        let folder = format!("/namespaces/{namespace}/");
        let mut requests = self.requests();
        requests.retain(|(method, uri)| {
            *method != Method::GET && uri.path().contains(&folder) && !uri.path().contains("/leases")
        });
        requests
    }

    /// Returns the number of bytes so far in the bodies of requests, and in those of answers, except definitions.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        (self.shared.requested.load(Ordering::Relaxed), self.shared.answered.load(Ordering::Relaxed))
    }

    /// Asks `guard` about every request from now on; a proxy has at most one guard.
    pub(crate) fn guarded_by(&self, guard: Guard) {
        assert!(self.shared.guard.set(guard).is_ok(), "a proxy has one guard");
    }

    /// Sets the state of the line from now on.
    pub(crate) fn line_is(&self, line: Line) {
        let before = self.line.send_replace(line);
        if (before == Line::Dropped) != (line == Line::Dropped) {
            self.filter(if line == Line::Dropped { "--insert" } else { "--delete" });
        }
    }

    /// Inserts or deletes the rules by which the kernel drops the proxy's packets.
    fn filter(&self, how: &str) {
        let port = self.address.port().to_string();
        for direction in ["--dport", "--sport"] {
            let rule = ["--wait", how, "INPUT", "--protocol", "tcp", direction, &port, "--jump", "DROP"];
            let ended = Command::new("iptables").args(rule).status().unwrap();
            assert!(ended.success(), "iptables {how}: {ended}");
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.line_is(Line::Up);
    }
}

impl Trap {
    /// Waits until a request is caught.
    pub(crate) async fn caught(self) -> Held {
        let Ok(caught) = timeout(DEADLINE, self.caught).await else {
            panic!("after {DEADLINE:?} still not called: {:?}", self.call)
        };
        caught.expect("traps live as long as the proxy")
    }
}

impl Held {
    /// Forwards the request, or its answer.
    pub(crate) fn release(self) {
        // Here and below, an error means that the client has closed the connection.
        self.0.send(Verdict::GoOn).ok();
    }

    /// Closes the client's connection like a process that ends: with a FIN.
    pub(crate) fn close(self) {}

    /// Ends the client's connection like a machine that does not know the connection: with a RST.
    pub(crate) fn reset(self) {
        self.0.send(Verdict::Reset).ok();
    }
}

/// The API server to which requests are forwarded.
#[derive(Clone)]
struct ApiServer {
    /// Host and port.
    authority: String,
    name: ServerName<'static>,
    connector: TlsConnector,
}

impl ApiServer {
    async fn infer() -> Self {
        let config = Config::infer().await.expect("KUBECONFIG is set by `tests/tools/cluster/cluster exec`");
        let mut roots = RootCertStore::empty();
        for certificate in config.root_cert.unwrap() {
            roots.add(CertificateDer::from(certificate)).unwrap();
        }
        let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Self {
            authority: config.cluster_url.authority().unwrap().to_string(),
            name: ServerName::try_from(config.cluster_url.host().unwrap().to_owned()).unwrap(),
            connector: TlsConnector::from(Arc::new(tls)),
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let stream = self.connector.connect(self.name.clone(), stream).await?;
        let (sender, connection) = client::handshake(TokioIo::new(stream)).await?;
        // The task that waits for an answer gets the error as well.
        tokio::spawn(async { connection.await.ok() });
        Ok(sender)
    }
}

/// Accepts the connections of clients.
struct Door {
    acceptor: TlsAcceptor,
    api_server: ApiServer,
    shared: Arc<Shared>,
    line: watch::Receiver<Line>,
}

impl Door {
    async fn keep(self, address: SocketAddr, mut socket: TcpSocket) {
        let mut line = self.line.clone();
        loop {
            let listener = socket.listen(BACKLOG).expect("it is bound to a port of ours");
            tokio::select! {
                () = self.admit(&listener) => {}
                _ = line.wait_for(|line| *line == Line::Refused) => {}
            }
            drop(listener);
            // Bound, so that no other process takes the port, but not listening: connections are refused.
            socket = loop {
                match bound(address) {
                    Ok(socket) => break socket,
                    // A child process holds all our sockets between its fork and the start of its program.
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::AddrInUse),
                }
                sleep(PAUSE).await;
            };
            if line.wait_for(|line| *line != Line::Refused).await.is_err() {
                return;
            }
        }
    }

    /// Accepts connections, which end when this future is dropped.
    async fn admit(&self, listener: &TcpListener) {
        let mut connections = JoinSet::new();
        // An error concerns only one connection.
        loop {
            if let Ok((mut client, _)) = listener.accept().await {
                let (outside, inside) = duplex(BUFFER);
                let visit = Visit {
                    api_server: self.api_server.clone(),
                    shared: Arc::clone(&self.shared),
                    sender: AsyncMutex::default(),
                    reset: CancellationToken::new(),
                };
                let (acceptor, line) = (self.acceptor.clone(), self.line.clone());
                connections.spawn(async move {
                    client.set_nodelay(true).expect("it is a TCP socket");
                    let carried = carry(&mut client, outside, line);
                    tokio::select! {
                        _ = join(carried, visit.serve(acceptor, inside)) => {}
                        () = visit.reset.cancelled() => {
                            client.set_zero_linger().expect("it is a TCP socket");
                        }
                    }
                });
            }
        }
    }
}

/// Transfers bytes between a client and the proxy while the line is up.
async fn carry(client: &mut TcpStream, mut outside: DuplexStream, mut line: watch::Receiver<Line>) {
    let mut copying = pin!(copy_bidirectional(client, &mut outside));
    loop {
        let is_up = matches!(*line.borrow_and_update(), Line::Up | Line::Dropped);
        tokio::select! {
            // An error means that one side has closed the connection.
            _ = &mut copying, if is_up => return,
            changed = line.changed() => {
                if changed.is_err() || *line.borrow() == Line::Lost {
                    return pending().await;
                }
            }
        }
    }
}

/// One connection of a client: its requests come one after the other, and use one connection to the API server.
struct Visit {
    api_server: ApiServer,
    shared: Arc<Shared>,
    sender: AsyncMutex<Option<SendRequest<Full<Bytes>>>>,
    /// Cancelled when a RST is to be sent to the client.
    reset: CancellationToken,
}

impl Visit {
    async fn serve(&self, acceptor: TlsAcceptor, inside: DuplexStream) {
        let Ok(stream) = acceptor.accept(inside).await else { return };
        let service = service_fn(|request| self.answer(request));
        // An error means that the client or the proxy has closed the connection.
        server::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
    }

    /// Returns the API server's answer. An error cuts the connection.
    async fn answer(&self, request: Request<Incoming>) -> Result<Answer, Failure> {
        let (parts, body) = request.into_parts();
        let request = Request::from_parts(parts, body.collect().await?.to_bytes());
        // A dry run stores nothing: it neither counts as a request nor meets a trap or fault.
        if request.uri().query().is_some_and(|query| query.contains("dryRun")) {
            return self.forward(request).await;
        }
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        self.shared.requests.lock().unwrap().push((request.method().clone(), request.uri().clone()));
        let waiting = Waiting(&self.shared.given_up, Instant::now());
        let faults = self.shared.guard.get().map_or_else(Vec::new, |guard| guard(&request));
        let body = request.body().clone();
        self.pass(&method, &path, &body, Moment::Before).await?;
        let mut after = Vec::new();
        for fault in faults {
            match fault {
                Fault::Cut(Moment::Before) => return Err("cut".into()),
                Fault::Refused(status) => return Ok(refusal(status)),
                Fault::Late(pause) => sleep(pause).await,
                Fault::Held(Moment::Before, catch) => self.held(catch).await?,
                Fault::Cut(Moment::After) | Fault::Held(Moment::After, _) => after.push(fault),
            }
        }
        let response = self.forward(request).await?;
        mem::forget(waiting);
        for fault in after {
            match fault {
                Fault::Held(_, catch) => self.held(catch).await?,
                _ => return Err("cut".into()),
            }
        }
        self.pass(&method, &path, &body, Moment::After).await?;
        Ok(response)
    }

    /// Holds the request if a trap is set for it.
    async fn pass(&self, method: &str, path: &str, body: &[u8], moment: Moment) -> Result<(), Failure> {
        let trap = {
            let mut traps = self.shared.traps.lock().unwrap();
            traps.retain(|trap| !trap.catch.is_closed());
            let meant = traps.iter().position(|trap| {
                let said = || String::from_utf8_lossy(body).contains(trap.says);
                trap.call.is(method, path) && trap.moment == moment && said()
            });
            meant.map(|i| traps.remove(i))
        };
        match trap {
            Some(trap) => self.held(trap.catch).await,
            None => Ok(()),
        }
    }

    /// Waits until the receiver of the held request decides how the request continues.
    async fn held(&self, catch: oneshot::Sender<Held>) -> Result<(), Failure> {
        let (held, verdict) = oneshot::channel();
        // If the test has dropped the receiver, there is no verdict either.
        catch.send(Held(held)).ok();
        match verdict.await? {
            Verdict::GoOn => Ok(()),
            Verdict::Reset => {
                self.reset.cancel();
                pending().await
            }
        }
    }

    async fn forward(&self, request: Request<Bytes>) -> Result<Answer, Failure> {
        self.shared.requested.fetch_add(request.body().len(), Ordering::Relaxed);
        let mut request = request.map(Full::new);
        request.headers_mut().insert(HOST, HeaderValue::from_str(&self.api_server.authority)?);
        let mut sender = self.sender.lock().await;
        // The API server keeps this connection open for longer than any client uses it.
        let sender = match &mut *sender {
            Some(sender) => sender,
            none => none.insert(self.api_server.connect().await?),
        };
        sender.ready().await?;
        let shared = Arc::clone(&self.shared);
        // The operator reads the definitions once a minute, whatever runs. Together they have a megabyte.
        let counts = !request.uri().path().contains("/customresourcedefinitions/");
        let counted = move |frame: Frame<Bytes>| {
            let length = frame.data_ref().filter(|_| counts).map_or(0, Bytes::len);
            shared.answered.fetch_add(length, Ordering::Relaxed);
            frame
        };
        Ok(sender.send_request(request).await?.map(|body| Either::Left(body.map_frame(counted).boxed())))
    }
}

/// Returns a refusal in the form in which the API server sends refusals.
fn refusal(status: StatusCode) -> Answer {
    let reason = match status {
        StatusCode::CONFLICT => "Conflict",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        _ => "InternalError",
    };
    let body = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "made up by a test", "reason": reason, "code": status.as_u16(),
    });
    let mut response = Response::new(Either::Right(Full::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

impl Call {
    fn is(&self, method: &str, path: &str) -> bool {
        self.method == method && path.contains(self.path)
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Returns the settings of a server that presents the leaf of these certificates and speaks HTTP/1.1.
pub(crate) fn identity(certificates: &Certificates) -> ServerConfig {
    let chain = CertificateDer::from_pem_slice(certificates.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(certificates.key.as_bytes()).unwrap();
    let mut config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![chain], key).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}
