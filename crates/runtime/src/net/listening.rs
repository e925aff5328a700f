//! NICs that are listened at, before it is known where peers listen.

use super::config::{NicConfig, OpenError};
use super::tcp::Tcp;
use super::transport::Transport;
use std::net::SocketAddr;

/// NICs that are listened at. Whoever dials waits until the node is opened.
///
/// ```
/// use lightloom_runtime::net::{Listening, NicConfig};
/// let any = "127.0.0.1:0".parse().unwrap();
/// let listening = Listening::bind(vec![NicConfig::at(any)]).unwrap();
/// assert_ne!(listening.addresses()[0].port(), 0);
/// ```
pub struct Listening<T: Transport = Tcp> {
    pub(super) transport: T,
    pub(super) nics: Vec<NicConfig>,
    pub(super) listeners: Vec<T::Listener>,
    pub(super) addresses: Vec<SocketAddr>,
}

impl Listening {
    /// Listens at NICs, with TCP as it is by default.
    ///
    /// # Errors
    /// The first NIC that cannot be listened at.
    pub fn bind(nics: Vec<NicConfig>) -> Result<Self, OpenError> {
        Listening::bind_over(Tcp::default(), nics)
    }
}

impl<T: Transport> Listening<T> {
    /// Listens at NICs.
    ///
    /// # Errors
    /// The first NIC that cannot be listened at.
    pub fn bind_over(transport: T, nics: Vec<NicConfig>) -> Result<Self, OpenError> {
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        for nic in &nics {
            let (address, device) = (nic.address, nic.device.clone());
            let failure = |why| OpenError::Listen { address, device, why };
            let (listener, address) = transport.listen(nic).map_err(failure)?;
            listeners.push(listener);
            addresses.push(address);
        }
        Ok(Listening { transport, nics, listeners, addresses })
    }

    /// Where each NIC listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}
