//! How mdrun divides its resources, and the arguments that say so to each release.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::strict;

/// How mdrun divides its resources. Turned into arguments by [`Layout::mdrun_args`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Layout {
    /// Thread-MPI ranks (`-ntmpi`), separate PME ranks included.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::RANKS.min, max = bounds::RANKS.max)))]
    #[serde(deserialize_with = "strict::integer")]
    pub ntmpi: u32,
    /// OpenMP threads per rank (`-ntomp`).
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::THREADS.min, max = bounds::THREADS.max)))]
    #[serde(deserialize_with = "strict::integer")]
    pub ntomp: u32,
    /// Ranks that do only PME (`-npme`).
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::PME_RANKS.min, max = bounds::PME_RANKS.max)))]
    #[serde(default, deserialize_with = "strict::integer")]
    pub npme: u32,
    /// GPUs used.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::GPUS.min, max = bounds::GPUS.max)))]
    #[serde(default, deserialize_with = "strict::integer")]
    pub gpus: u32,
    /// Where the nonbonded interactions are computed (`-nb`).
    #[serde(default, deserialize_with = "strict::word")]
    pub nb: Device,
    /// Where PME is computed (`-pme`).
    #[serde(default, deserialize_with = "strict::word")]
    pub pme: Device,
    /// Where the bonded interactions are computed (`-bonded`).
    #[serde(default, deserialize_with = "strict::word")]
    pub bonded: Device,
    /// Where update and constraints are computed (`-update`).
    #[serde(default, deserialize_with = "strict::word")]
    pub update: Device,
    /// Pin threads to cores (`-pin`): only right where the pod's cores are its own. The tuner never proposes it; a row may say
    /// it (`mdrun_options`).
    #[serde(default)]
    pub pin: bool,
}

impl Layout {
    /// One node's CPU cores: `ntmpi` ranks of `ntomp` threads, none of them for PME alone, not pinned.
    #[must_use]
    pub fn cpu(ntmpi: u32, ntomp: u32) -> Self {
        Self {
            ntmpi,
            ntomp,
            npme: 0,
            gpus: 0,
            nb: Device::Cpu,
            pme: Device::Cpu,
            bonded: Device::Cpu,
            update: Device::Cpu,
            pin: false,
        }
    }

    /// Like [`Layout::cpu`]; beside a GPU, all of a box of water on it that the usual settings allow there. Water has no
    /// bonded interactions, and mdrun refuses to compute none of them on a GPU.
    #[must_use]
    pub fn water(ntmpi: u32, ntomp: u32, gpus: u32) -> Self {
        let device = if gpus > 0 { Device::Gpu } else { Device::Cpu };
        Self { gpus, nb: device, pme: device, ..Self::cpu(ntmpi, ntomp) }
    }

    /// The same layout with on CPUs what this release of GROMACS does not compute on GPUs; of a release that is not known
    /// nothing is said.
    #[must_use]
    pub fn known_to(self, gromacs_version: Option<&str>) -> Self {
        let Some(year) = gromacs_version.and_then(release_year) else { return self };
        let since = |first: u32, device: Device| if year >= first { device } else { Device::Cpu };
        Self {
            pme: since(PME_ON_GPU, self.pme),
            bonded: since(BONDED_ON_GPU, self.bonded),
            update: since(UPDATE_ON_GPU, self.update),
            ..self
        }
    }

    /// The same division of as many cores for one rank, with as many threads as mdrun is compiled for.
    #[must_use]
    pub fn on_one_rank(self) -> Self {
        Self { ntmpi: 1, npme: 0, ntomp: self.threads().min(bounds::THREADS.max), ..self }
    }

    /// Threads in all.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.ntmpi.saturating_mul(self.ntomp)
    }

    /// The arguments that make mdrun of this version of GROMACS use exactly this layout.
    ///
    /// Nothing is left to mdrun's own choice: inside a container it may count the cores of the whole node.
    /// On CPUs only `-nb cpu` is said of the offload flags, since it implies the others and every version
    /// knows it. With a GPU, `-pme` (since 2018), `-bonded` (2019) and `-update` (2020) follow as far as the release
    /// knows them; an option that it does not know ends mdrun, so of an unknown release they are left out.
    ///
    /// ```
    /// use scavenger_schema::tuning::Layout;
    /// assert_eq!(
    ///     Layout::cpu(1, 2).mdrun_args(None).join(" "),
    ///     "-ntmpi 1 -ntomp 2 -npme 0 -pin off -nb cpu"
    /// );
    /// ```
    #[must_use]
    pub fn mdrun_args(&self, gromacs_version: Option<&str>) -> Vec<String> {
        let ranks = ["-ntmpi".to_owned(), self.ntmpi.to_string()];
        ranks.into_iter().chain(self.mdrun_args_of_a_rank(gromacs_version)).collect()
    }

    /// The same without the number of ranks, for a build that has no thread-MPI ([`crate::tuning::Build::lacks_thread_mpi`]).
    #[must_use]
    pub fn mdrun_args_of_a_rank(&self, gromacs_version: Option<&str>) -> Vec<String> {
        let mut args = vec![
            "-ntomp".to_owned(),
            self.ntomp.to_string(),
            "-npme".to_owned(),
            self.npme.to_string(),
            "-pin".to_owned(),
            if self.pin { "on" } else { "off" }.to_owned(),
            "-nb".to_owned(),
            self.nb.to_string(),
        ];
        if self.nb == Device::Gpu {
            let year = gromacs_version.and_then(release_year);
            for (flag, device, first) in [
                ("-pme", self.pme, PME_ON_GPU),
                ("-bonded", self.bonded, BONDED_ON_GPU),
                ("-update", self.update, UPDATE_ON_GPU),
            ] {
                if year.is_some_and(|year| year >= first) {
                    args.push(flag.to_owned());
                    args.push(device.to_string());
                }
            }
        }
        args
    }
}

/// First release that computes PME on GPUs, and has the option `-pme`.
pub const PME_ON_GPU: u32 = 2018;
/// First release that computes bonded interactions on GPUs, and has the option `-bonded`.
pub const BONDED_ON_GPU: u32 = 2019;
/// First release that updates and constrains on GPUs, and has the option `-update`.
pub const UPDATE_ON_GPU: u32 = 2020;

/// Year of a version as `gmx --version` prints it; releases before 2016 count as 5 or less.
#[must_use]
pub fn release_year(version: &str) -> Option<u32> {
    let digits: String = version
        .trim_start_matches(|c: char| !c.is_ascii_digit())
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

/// Where a part of the step is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Device {
    /// On CPU cores.
    #[default]
    Cpu,
    /// On a GPU.
    Gpu,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_layouts_name_every_offload_flag() {
        let layout = Layout {
            gpus: 1,
            nb: Device::Gpu,
            pme: Device::Gpu,
            bonded: Device::Gpu,
            pin: true,
            ..Layout::cpu(1, 8)
        };
        assert_eq!(
            layout.mdrun_args(Some("2024.4")).join(" "),
            "-ntmpi 1 -ntomp 8 -npme 0 -pin on -nb gpu -pme gpu -bonded gpu -update cpu"
        );
    }

    #[test]
    fn a_release_gets_only_the_options_that_it_knows() {
        let on_gpu = Layout { bonded: Device::Gpu, update: Device::Gpu, ..Layout::water(1, 8, 1) };
        let offload = |version| {
            let args = on_gpu.known_to(version).mdrun_args(version).join(" ");
            args.split_once("-nb ").expect("it should always be said").1.to_owned()
        };
        assert_eq!(offload(None), "gpu");
        assert_eq!(offload(Some("VERSION 5.1")), "gpu");
        assert_eq!(offload(Some("2016.4")), "gpu");
        assert_eq!(offload(Some("2018.8")), "gpu -pme gpu");
        assert_eq!(offload(Some("2019.6")), "gpu -pme gpu -bonded gpu");
        assert_eq!(offload(Some("2020")), "gpu -pme gpu -bonded gpu -update gpu");
        assert_eq!(on_gpu.known_to(Some("2018.8")).bonded, Device::Cpu);
        assert_eq!(on_gpu.known_to(None), on_gpu);
    }

    #[test]
    fn a_build_without_thread_mpi_runs_one_rank_and_is_not_told_so() {
        let layout = Layout { npme: 4, ..Layout::cpu(16, 2) }.on_one_rank();
        assert_eq!(layout, Layout::cpu(1, 32));
        assert_eq!(layout.mdrun_args_of_a_rank(None).join(" "), "-ntomp 32 -npme 0 -pin off -nb cpu");
        assert_eq!(Layout::cpu(16, 16).on_one_rank().ntomp, bounds::THREADS.max);
    }

    #[test]
    fn water_has_nothing_bonded_to_put_on_a_gpu() {
        assert_eq!(Layout::water(1, 8, 1).bonded, Device::Cpu);
    }

    #[test]
    fn the_year_is_read_from_what_gmx_prints() {
        assert_eq!(release_year("2022.5-Debian_2022.5_2"), Some(2022));
        assert_eq!(release_year("VERSION 5.1"), Some(5));
        assert_eq!(release_year("unknown"), None);
    }
}
