//! The devices of a study: a grid of latencies and rates, or profiles by name.
//!
//! A grid's devices are the profile [`BASE`] with latency and rate replaced. Its other figures that
//! depend on the rate follow it (the total over cores is 16 times one core's), so that every rate
//! from one read per second on is legal.

use std::sync::Arc;

use littoral_base::mutant;
use littoral_base::units::{PerSecond, Picos};
use littoral_device::flash::cached::Frames;
use littoral_device::profile::{Flash, Interface, Profile};
use littoral_graph::medium::{Store, Transfer};

use super::model::Figures;
use super::study::DeviceRow;
use super::{Options, failed};
use crate::error::{Error, Kind, Result};

/// The profile whose other figures (granule, link, longest read) every device of a grid keeps.
pub const BASE: &str = "xlfdd";
/// Cores that share a grid's device.
const CORES: u64 = 16;
/// The greatest total that a profile may give.
const TOTAL_MAX: u64 = 1_000_000_000_000;
/// Latency of a near device: longer than a read from DRAM takes, so that data are near when they
/// are used, as on every device; shorter than any that is of interest.
pub(super) const NEAR_LATENCY: &str = "500ns";
/// Contexts at which processor time is measured, at most so many numbers.
const CONTEXTS_MAX: usize = 3;

/// A device of a study.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its name.
    pub name: String,
    profile: Profile,
    /// The profile's figures, with the interface that the device has.
    flash: Flash,
}

/// Granule, longest read, interface and doorbell.
type Geometry = (u32, u32, Interface, Option<Picos>);

fn bad(e: littoral_device::Error) -> Error {
    Error::with_source(Kind::Argument, "what-if study", e)
}

/// The profile with new figures of rate and latency, whichever order of changes is legal.
///
/// # Errors
/// `Kind::Argument` for a figure out of range.
pub fn with_figures(base: &Profile, latency: Picos, rate: PerSecond) -> Result<Profile> {
    let core = (rate.0 as u64).max(1);
    let total = core.saturating_mul(CORES).min(TOTAL_MAX.max(core));
    let set = |p: Profile, key: &str, value: u64| p.with(key, &value.to_string());
    let falls = core < base.flash().map_err(bad)?.reads_per_core_max;
    let order = if falls {
        [("read.per_core_max", core), ("read.total_max", total)]
    } else {
        [("read.total_max", total), ("read.per_core_max", core)]
    };
    let changed = order.iter().try_fold(base.clone(), |p, &(key, value)| set(p, key, value));
    changed.and_then(|p| p.with("read.latency", &format!("{}ps", latency.0))).map_err(bad)
}

impl Device {
    fn new(name: String, profile: Profile, interface: Option<Interface>) -> Result<Device> {
        let mut flash = profile.flash().map_err(bad)?;
        flash.interface = interface.unwrap_or(flash.interface);
        Ok(Device { name, profile, flash })
    }

    /// The contents of `dram` behind this device, data by pointer.
    ///
    /// # Errors
    /// `Kind::Environment` when the contents are not in DRAM.
    pub fn store(&self, dram: &Store) -> Result<Store> {
        let interface = self.flash.interface;
        dram.behind_as(&self.profile, interface, Transfer::Pointer).map_err(failed)
    }

    /// Its read latency.
    pub fn latency_ns(&self) -> f64 {
        self.flash.latency.0 as f64 / 1e3
    }

    /// Its reads per second of one core.
    pub fn reads_per_s(&self) -> f64 {
        self.flash.reads_per_core_max as f64
    }

    /// What the profile says of its power.
    pub fn power_w(&self) -> Option<f64> {
        self.profile.power_w()
    }

    /// The device as the model sees it.
    pub fn figures(&self, store: &Store) -> Figures {
        Figures {
            latency_ns: self.latency_ns(),
            reads_per_s: self.reads_per_s(),
            link_bytes_per_s: self.flash.link_bytes_per_s as f64,
            contexts: store.modelled_contexts().unwrap_or(1),
        }
    }

    /// The device's row in a study.
    pub fn row(&self, edges_bytes: u64, mean_ratio: f64) -> DeviceRow {
        DeviceRow {
            name: self.name.clone(),
            profile_hash: self.profile.hash(),
            latency_ns: self.latency_ns(),
            reads_per_s: self.reads_per_s(),
            link_bytes_per_s: self.flash.link_bytes_per_s as f64,
            granule_bytes: u64::from(self.flash.granule_bytes),
            read_max_bytes: u64::from(self.flash.read_bytes_max),
            edges_price: self.profile.price_per_gb().map(|p| p * edges_bytes as f64 / 1e9),
            power_w: self.power_w(),
            mean_ratio,
        }
    }

    /// The same device, near: a short latency and no other limit.
    fn near(&self) -> Result<Device> {
        let free = self
            .profile
            .with("read.total_max", "1000G")
            .and_then(|p| p.with("read.per_core_max", "1000G"))
            .and_then(|p| p.with("link.bytes_max", "1000000G"))
            .and_then(|p| p.with("read.latency", NEAR_LATENCY))
            .map_err(bad)?;
        Device::new(self.name.clone(), free, Some(self.flash.interface))
    }

    /// What decides which reads are made, and by which code.
    fn geometry(&self) -> Geometry {
        let f = &self.flash;
        (f.granule_bytes, f.read_bytes_max, f.interface, f.doorbell)
    }
}

/// The devices that `options` ask for.
///
/// # Errors
/// `Kind::Argument` for figures out of range.
pub fn devices(options: &Options) -> Result<Vec<Device>> {
    if !options.parts.is_empty() {
        let parts = options.parts.iter().cloned();
        return parts.map(|p| Device::new(p.name, p.profile, p.interface)).collect();
    }
    check_grid(options)?;
    let base = Profile::named(BASE).map_err(bad)?;
    let latencies = ladder(options.latency.from.0 as f64, options.latency.to.0 as f64);
    let rates = ladder(options.iops.from.0, options.iops.to.0);
    let mut devices = Vec::new();
    for &rate in &rates {
        for &latency in &latencies {
            let (latency, rate) = (Picos(latency as u64), PerSecond(rate));
            let profile = with_figures(&base, latency, rate)?;
            devices.push(Device::new(format!("{latency}, {rate}"), profile, None)?);
        }
    }
    Ok(devices)
}

/// Refuses a grid that begins at zero: no ladder of decades leads there.
fn check_grid(options: &Options) -> Result<()> {
    let (latency, rate) = (options.latency.from, options.iops.from);
    let figure = match (latency.0, rate.0) {
        (0, _) => "latency",
        (_, rate) if rate <= 0.0 => "rate",
        _ => return Ok(()),
    };
    let what = format!("the least {figure} of the grid is zero; begin above it");
    Err(Error::new(Kind::Argument, what))
}

/// The ends, which are above zero, and the 1-2-5 values between them.
fn ladder(from: f64, to: f64) -> Vec<f64> {
    let decades = (from.log10().floor() as i32)..=(to.log10().ceil() as i32);
    let steps = decades.flat_map(|d| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(d)));
    let inner = steps.filter(move |&v| v > from * 1.2 && v < to / 1.2).collect::<Vec<_>>();
    let ends = if from < to { vec![from, to] } else { vec![from] };
    let mut all = [inner, ends].concat();
    all.sort_by(f64::total_cmp);
    all
}

/// Near devices, and which of them stands for each device.
pub struct NearDevices {
    /// One for each geometry and number of contexts.
    pub stores: Vec<Store>,
    /// They as the model sees them.
    pub figures: Vec<Figures>,
    /// For each device its place in `stores`.
    pub of_device: Vec<usize>,
}

/// Opens near devices for every geometry of `devices`, at a few numbers of contexts.
///
/// # Errors
/// `Kind::Argument` when a profile cannot do without its limits.
pub fn near(
    dram: &Store,
    devices: &[Device],
    stores: &[Store],
    frames: Option<&Arc<Frames>>,
) -> Result<NearDevices> {
    let mut found = NearDevices { stores: Vec::new(), figures: Vec::new(), of_device: Vec::new() };
    let mut keys: Vec<(Geometry, u32)> = Vec::new();
    let contexts: Vec<u32> = stores.iter().map(|s| s.modelled_contexts().unwrap_or(1)).collect();
    for (i, device) in devices.iter().enumerate() {
        let geometry = device.geometry();
        let same = |(j, d): (usize, &Device)| (d.geometry() == geometry).then_some(contexts[j]);
        let chosen = few(devices.iter().enumerate().filter_map(same).collect());
        let far = |n: &u32| (f64::from(*n) / f64::from(contexts[i])).ln().abs();
        let nearest = chosen.into_iter().min_by(|a, b| far(a).total_cmp(&far(b)));
        let key = (geometry, nearest.unwrap_or(contexts[i]));
        let at = match keys.iter().position(|k| *k == key) {
            Some(at) => at,
            None => {
                let near = device.near()?;
                let store = near.store(dram)?.with_contexts(key.1);
                let store = holding(store, frames);
                found.figures.push(near.figures(&store));
                found.stores.push(store);
                keys.push(key);
                keys.len() - 1
            }
        };
        found.of_device.push(at);
    }
    Ok(found)
}

/// A store with frames held, if there are any.
pub fn holding(store: Store, frames: Option<&Arc<Frames>>) -> Store {
    match frames {
        Some(frames) if !mutant!("whatif_frames_not_held") => store.with_frames(Arc::clone(frames)),
        _ => store,
    }
}

/// At most [`CONTEXTS_MAX`] of `numbers`: the least, the greatest, and one between.
fn few(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.len() > CONTEXTS_MAX {
        let last = numbers.len() - 1;
        numbers = vec![numbers[0], numbers[last / 2], numbers[last]];
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ladders_have_their_ends_and_round_values_between() {
        let whole =
            |from, to| ladder(from, to).iter().map(|v| v.round() as u64).collect::<Vec<_>>();
        assert_eq!(whole(1e6, 2e7), [1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000]);
        assert_eq!(whole(4.0, 4.0), [4]);
        assert_eq!(whole(5e6, 1e8), [5_000_000, 10_000_000, 20_000_000, 50_000_000, 100_000_000]);
    }

    #[test]
    fn every_rate_is_legal_without_fields_that_the_user_never_wrote() {
        let base = Profile::named(BASE).unwrap();
        for rate in [1.0, 1e3, 2e6, 2.75e6, 44e6, 5e9, 1e11] {
            let profile = with_figures(&base, Picos::from_micros(7), PerSecond(rate)).unwrap();
            let flash = profile.flash().unwrap();
            assert_eq!(flash.reads_per_core_max, rate as u64);
            assert_eq!(flash.reads_total_max, (16 * rate as u64).min(TOTAL_MAX));
            assert_eq!(flash.latency, Picos::from_micros(7));
        }
    }

    #[test]
    fn few_numbers_keep_both_ends() {
        assert_eq!(few(vec![64, 2048, 64, 128, 512, 256]), [64, 256, 2048]);
        assert_eq!(few(vec![512, 64]), [64, 512]);
    }
}
