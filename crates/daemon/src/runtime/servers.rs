//! Which servers of the controller's region are the job's.
//!
//! A job has some of the region's servers, or all, in an order of its own. Those that it has not stand by or are away:
//! nothing is sent to them, and no circuit that leads to one is used.

use lightloom_control::PortId;

/// The job's servers in the region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Servers {
    /// By the job's server, the region's.
    of_region: Vec<u16>,
    /// By the region's server, the job's, if it is there.
    of_job: Vec<Option<u16>>,
}

impl Servers {
    /// Finds the job's servers by their names.
    ///
    /// # Errors
    /// One that the region has not.
    pub fn find(job: &[String], region: &[String]) -> Result<Self, String> {
        let mut found =
            Servers { of_region: Vec::with_capacity(job.len()), of_job: vec![None; region.len()] };
        for (number, name) in (0..).zip(job) {
            let Some(at) = region.iter().position(|other| other == name) else {
                let there = region.join(", ");
                return Err(format!(
                    "the job has server {name}; the controller's region has {there}"
                ));
            };
            found.of_region.push(at as u16); // regions have 65,536 servers at most
            found.of_job[at] = Some(number);
        }
        Ok(found)
    }

    /// What is sent to each server of the job, by server of the region.
    pub fn demand(&self, bytes: &[u64]) -> Vec<u64> {
        let mut all = vec![0; self.of_job.len()];
        for (&at, &bytes) in self.of_region.iter().zip(bytes) {
            all[usize::from(at)] = bytes;
        }
        all
    }

    /// Circuits to the region's servers, as circuits to the job's.
    pub fn circuits(&self, circuits: &[Option<PortId>]) -> Vec<Option<PortId>> {
        let end = |(server, port): PortId| {
            self.of_job.get(usize::from(server)).copied().flatten().map(|server| (server, port))
        };
        circuits.iter().map(|circuit| circuit.and_then(end)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Servers;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_servers_in_their_order_are_as_they_are() {
        let all = names(&["a", "b", "c"]);
        let same = Servers::find(&all, &all).unwrap();
        assert_eq!(same.demand(&[1, 2, 3]), [1, 2, 3]);
        let circuits = [Some((2, 0)), None, Some((1, 3))];
        assert_eq!(same.circuits(&circuits), circuits);
    }

    #[test]
    fn a_spare_in_the_place_of_another_server_has_its_own_number_in_the_region() {
        let region = names(&["a", "b", "c", "d"]);
        let spared = Servers::find(&names(&["a", "d", "c"]), &region).unwrap();
        assert_eq!(spared.demand(&[1, 2, 3]), [1, 0, 3, 2]);
        // To c and d; to b, which is away, and to a server that no region has.
        let circuits = [Some((2, 1)), Some((3, 0)), Some((1, 0)), Some((9, 0))];
        assert_eq!(spared.circuits(&circuits), [Some((2, 1)), Some((1, 0)), None, None]);
    }

    #[test]
    fn a_server_that_the_region_has_not_is_named() {
        let why = Servers::find(&names(&["a", "x"]), &names(&["a", "b"])).unwrap_err();
        assert_eq!(why, "the job has server x; the controller's region has a, b");
    }
}
