//! Load balancers: one a file, one line in the list below. What one is stands in [`plug`].

pub(crate) mod alone;
pub(crate) mod outside;
pub(crate) mod plug;

use plug::{Balancer, Capabilities, Chunks, Heard, Next};

macro_rules! balancers {
    ($($module:ident::$Name:ident),* $(,)?) => {
        lightloom_units::kinds! {
            /// The settings of one of [`BALANCERS`], as the table `engine.balancer` has them.
            settings BalancerSpec;
            /// How flows spread over equal paths.
            family BALANCERS: Capabilities = "balancer", "How flows spread over equal paths.";
            $($module::$Name),*
        }

        /// Any of them: an enum and no pointer, for each packet asks it.
        #[derive(Clone, Debug)]
        pub(crate) enum AnyBalancer {
            $($Name($module::$Name)),*
        }

        impl AnyBalancer {
            /// See [`Balancer::new`].
            pub fn new(spec: &BalancerSpec, paths: u16, hash: u64) -> Self {
                match spec {
                    $(BalancerSpec::$Name(settings) => {
                        AnyBalancer::$Name(Balancer::new(settings, paths, hash))
                    })*
                }
            }
            /// See [`Balancer::path`].
            #[inline]
            pub fn path(&mut self, next: Next) -> u16 {
                match self {
                    $(AnyBalancer::$Name(balancer) => balancer.path(next)),*
                }
            }
            /// See [`Balancer::acked`].
            #[inline]
            pub fn acked(&mut self, heard: Heard) {
                match self {
                    $(AnyBalancer::$Name(balancer) => balancer.acked(heard)),*
                }
            }
            /// See [`Balancer::round_trip`].
            #[inline]
            pub fn round_trip(&self) -> Option<u64> {
                match self {
                    $(AnyBalancer::$Name(balancer) => balancer.round_trip()),*
                }
            }
        }

        impl BalancerSpec {
            /// How all-to-alls are dealt to rails, if a plan does that.
            pub fn chunks(&self) -> Option<Chunks> {
                match self {
                    $(BalancerSpec::$Name(settings) => {
                        <$module::$Name as Balancer>::chunks(settings)
                    })*
                }
            }
        }
    };
}

balancers! {
    ecmp::Ecmp,
    plb::Plb,
    reps::Reps,
    min_rtt::MinRtt,
    round_robin::RoundRobin,
    rails::Rails,
    flowlets::Flowlets,
    adaptive::Adaptive,
}
