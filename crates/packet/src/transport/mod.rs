//! Transports: one a file, one line in the list below. What one is stands in [`plug`].

pub(crate) mod plug;

use lightloom_units::{Bytes, Time};
use plug::{Ack, Capabilities, PathInfo, Transport};

macro_rules! transports {
    ($($module:ident::$Name:ident),* $(,)?) => {
        lightloom_units::kinds! {
            /// The settings of one of [`TRANSPORTS`], as the table `engine.transport` has them.
            settings TransportSpec;
            /// What the hosts speak.
            family TRANSPORTS: Capabilities = "transport",
                "What the hosts speak; decides the defaults of the balancer and of the switches.";
            $($module::$Name),*
        }

        /// Any of them: an enum and no pointer, for each packet asks it.
        #[derive(Clone, Debug)]
        pub(crate) enum AnyTransport {
            $($Name($module::$Name)),*
        }

        impl AnyTransport {
            /// See [`Transport::new`].
            pub fn new(spec: &TransportSpec, path: PathInfo, now: u64) -> Self {
                match spec {
                    $(TransportSpec::$Name(settings) => {
                        AnyTransport::$Name(Transport::new(settings, path, now))
                    })*
                }
            }
            /// See [`Transport::may_send`].
            #[inline]
            pub fn may_send(&self, in_flight: u32, packet: f64) -> bool {
                match self {
                    $(AnyTransport::$Name(transport) => transport.may_send(in_flight, packet)),*
                }
            }
            /// See [`Transport::sent`].
            #[inline]
            pub fn sent(&mut self, bytes: u64, now: u64) -> u64 {
                match self {
                    $(AnyTransport::$Name(transport) => transport.sent(bytes, now)),*
                }
            }
            /// See [`Transport::may_send_from`].
            #[inline]
            pub fn may_send_from(&self) -> u64 {
                match self {
                    $(AnyTransport::$Name(transport) => transport.may_send_from()),*
                }
            }
            /// See [`Transport::acked`].
            #[inline]
            pub fn acked(&mut self, ack: Ack) {
                match self {
                    $(AnyTransport::$Name(transport) => transport.acked(ack)),*
                }
            }
            /// See [`Transport::lost`].
            pub fn lost(&mut self, sent: u64, now: u64) {
                match self {
                    $(AnyTransport::$Name(transport) => transport.lost(sent, now)),*
                }
            }
            /// See [`Transport::timed_out`].
            pub fn timed_out(&mut self) {
                match self {
                    $(AnyTransport::$Name(transport) => transport.timed_out()),*
                }
            }
            /// See [`Transport::notified`].
            pub fn notified(&mut self, now: u64) {
                match self {
                    $(AnyTransport::$Name(transport) => transport.notified(now)),*
                }
            }
            /// See [`Transport::unasked`].
            pub fn unasked(&self) -> u32 {
                match self {
                    $(AnyTransport::$Name(transport) => transport.unasked()),*
                }
            }
            /// See [`Transport::pulled`].
            pub fn pulled(&mut self) {
                match self {
                    $(AnyTransport::$Name(transport) => transport.pulled()),*
                }
            }
        }

        impl TransportSpec {
            /// See [`Transport::given_window`].
            pub(crate) fn given_window(&self) -> Option<Bytes> {
                match self {
                    $(TransportSpec::$Name(of) => $module::$Name::given_window(of)),*
                }
            }
            /// See [`Transport::retransmit_after`].
            pub(crate) fn retransmit_after(&self) -> Time {
                match self {
                    $(TransportSpec::$Name(of) => $module::$Name::retransmit_after(of)),*
                }
            }
            /// See [`Transport::notification_interval`].
            pub(crate) fn notification_interval(&self) -> Option<Time> {
                match self {
                    $(TransportSpec::$Name(of) => $module::$Name::notification_interval(of)),*
                }
            }
        }
    };
}

transports! {
    dcqcn::Dcqcn,
    roce::Roce,
    ndp::Ndp,
    spray::Spray,
    dctcp::Dctcp,
    credit::Credit,
}
