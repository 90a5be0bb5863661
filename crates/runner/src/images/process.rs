//! A gRPC function server that is a process of this machine, where containers cannot be run.
//!
//! It listens on a port of the loopback interface, to which every process of this machine can connect, and where another one could listen
//! in its place. So both sides show certificates that no other process has. See [`super::serve`] for one in a container.

use std::sync::Arc;

use ferroplane_sandbox::{Error, ServeProcess};

use super::error::ImageError;
use super::serve::{Belongings, CERTIFICATES_VARIABLE, ServerCertificates, certificate_files, listen_on};
use super::words::LastWords;
use super::{ImageSource, Images, ServeImage, ServedImage};
use crate::grpc::{Client, Options, Target};
use crate::process::Port;

/// Where a server finds its certificates, in the directory that it starts in: its user may not be able to pass through those above.
const CERTIFICATES: &str = "tls";

impl Images {
    /// Why this machine cannot run containers at all, if so. A failure that may pass is an error.
    pub async fn why_no_containers(&self) -> Result<Option<String>, ImageError> {
        match self.probe().await {
            Ok(()) => Ok(None),
            Err(ImageError::Runtime(error)) if error.forbids_containers() => Ok(Some(error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// Start the server of a function as a process, and return when it listens. From then on it is started again whenever it ends.
    ///
    /// Only a static executable can be run so. It isolates next to nothing: an administrator has to have allowed it.
    pub async fn serve_process(&self, name: &str, source: ImageSource) -> Result<ServedImage, ImageError> {
        let image = self.prepare_server(&source).await?;
        let usual = ServeImage::function(name, source);
        let port = Port::free().map_err(ImageError::NoPort)?;
        let address = port.address();
        let target: Target = address.to_string().parse().expect("a socket address is a target");
        let ServerCertificates { server, client } = ServerCertificates::issue(&address.ip().to_string())?;
        let options = Options { tls: Some(client), ..usual.options };
        let client = Arc::new(Client::new(target, options).map_err(ImageError::Client)?);
        let mut container = image.container();
        listen_on(&mut container, address);
        container.environment = vec![(CERTIFICATES_VARIABLE.to_owned(), CERTIFICATES.to_owned())];
        let (words, files) = (LastWords::default(), certificate_files(server));
        let serve = ServeProcess {
            container,
            limits: usual.limits,
            address,
            patience: usual.patience,
            files: files.map(|(name, content)| (format!("{CERTIFICATES}/{name}"), content)).into(),
            log: words.sink(self.server_sink(name)),
        };
        match self.processes().await?.serve(serve).await {
            Ok(server) => {
                Ok(ServedImage::new(server, client, words, image, Belongings::Process { _port: port }))
            }
            // It has said nothing: it was not started.
            Err(error @ Error::NotStatic { .. }) => Err(error.into()),
            Err(source) => Err(ImageError::Serve { said: words.said(), source }),
        }
    }
}
