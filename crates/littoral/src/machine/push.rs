//! Devices that run page functions, opened.
//!
//! | medium | with a profile | what it is |
//! |---|---|---|
//! | `ram` | optional | an empty data set in this process's memory; STORE fills it |
//! | `file:PATH` | by option | the data set in a file; a device in this process |
//! | `unix:PATH` | no | a device of another process, as `littoral push serve` offers it |
//!
//! With a profile the device is modelled in virtual time, and a policy decides where each page is
//! computed. Without one the device computes on every page, or on a static share of them.

use std::path::Path;

use littoral_device::profile::DeviceKind;
use littoral_device::profile::machine::{DeviceSpec, Medium};
use littoral_device::{Error, Kind, Result};
use littoral_push::api::{About, Cores, DataSet, Device, Local, Remote, Settings};
use littoral_push::command::{Command, Completion};
use littoral_push::device::{Machine as Model, Outcome, modelled_by};
use littoral_push::page::{Column, Format, Schema};
use littoral_push::policy::{Commit, Policy, STEPS, is_flagged};

use super::Machine;
use super::open::{described, not_built};

/// Bytes of a page of an empty data set.
const PAGE_BYTES: usize = 16384;

/// An opened device that runs page functions.
pub enum PushDevice {
    /// In this process.
    Local(Box<Local>),
    /// Behind a socket.
    Remote(Remote),
}

impl PushDevice {
    /// What was opened, in words.
    pub fn describe(&self) -> String {
        match self {
            PushDevice::Local(local) => {
                let about = local.engine().set().about();
                format!("{} pages of {} B, {} records", about.pages, about.page_bytes, about.rows)
            }
            PushDevice::Remote(_) => "a device of another process, paced".to_owned(),
        }
    }

    /// The simulated run of the last scan; none without a model.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            PushDevice::Local(local) => local.outcome(),
            PushDevice::Remote(_) => None,
        }
    }
}

impl Device for PushDevice {
    fn submit(&mut self, command: &Command, data: &[u8]) -> littoral_push::error::Result<()> {
        match self {
            PushDevice::Local(local) => local.submit(command, data),
            PushDevice::Remote(remote) => remote.submit(command, data),
        }
    }

    fn wait(&mut self) -> littoral_push::error::Result<(Completion, Vec<u8>)> {
        match self {
            PushDevice::Local(local) => local.wait(),
            PushDevice::Remote(remote) => remote.wait(),
        }
    }

    fn reconnect(&mut self) -> littoral_push::error::Result<()> {
        match self {
            PushDevice::Local(local) => local.reconnect(),
            PushDevice::Remote(remote) => remote.reconnect(),
        }
    }
}

impl Machine {
    /// Opens a device that runs page functions; a modelled one decides by late binding.
    ///
    /// # Errors
    /// As [`Machine::flash`]; `Kind::Corrupt` for a file that holds no data set.
    pub fn push(&self, name: &str) -> Result<PushDevice> {
        self.push_with(name, Policy::Late)
    }

    /// As [`Machine::push`], with another policy.
    ///
    /// # Errors
    /// As [`Machine::push`].
    pub fn push_with(&self, name: &str, policy: Policy) -> Result<PushDevice> {
        let device = self.named(name, DeviceKind::Push)?;
        let opened = match &device.medium {
            Medium::Ram => empty(None).and_then(|set| local(device, set, policy)),
            Medium::File(path) if !path.exists() => {
                empty(Some(path)).and_then(|set| local(device, set, policy))
            }
            Medium::File(path) => {
                let set = DataSet::open(path).map_err(|e| over("opening the data set", e));
                set.and_then(|set| local(device, set, policy))
            }
            Medium::Unix(path) => {
                Remote::open(path).map(PushDevice::Remote).map_err(|e| over("connecting", e))
            }
            _ => Err(not_built(device)),
        };
        opened.map_err(|e| described(device, e))
    }

    /// The model of a device and the host's queue depth; none without a profile.
    ///
    /// # Errors
    /// `Kind::Profile` for an unknown device or another kind's profile.
    pub fn push_model(&self, name: &str) -> Result<Option<(Model, u32)>> {
        let device = self.named(name, DeviceKind::Push)?;
        let modelled = |p| modelled_by(p).map_err(|e| over("taking the profile", e));
        device.profile.as_ref().map(modelled).transpose()
    }
}

fn over(what: &str, e: littoral_push::error::Error) -> Error {
    use littoral_push::error::Kind as Push;
    let kind = match e.kind() {
        Push::Usage => Kind::IllegalRequest,
        Push::Corrupt => Kind::Corrupt,
        Push::Io | Push::Exhausted | Push::SessionGone => Kind::Io,
        Push::Unsupported => Kind::Unsupported,
    };
    Error::over(kind, what, e)
}

/// An empty data set, in memory or in a file that is made when records are stored.
fn empty(path: Option<&Path>) -> Result<DataSet> {
    let schema = Schema::new(vec![Column::int("value", 0, 1)]);
    let schema = schema.map_err(|e| over("an empty data set", e))?;
    let about = About::new(&schema, Format::Columns, PAGE_BYTES);
    Ok(path.map_or_else(|| DataSet::memory(&about), |p| DataSet::absent(p, &about)))
}

fn local(device: &DeviceSpec, set: DataSet, policy: Policy) -> Result<PushDevice> {
    // Answers and counts are those of the code, which a core would interpret.
    let settings = Settings { cores: Cores::Twin, ..Settings::default() };
    let mut local = Local::new(set, settings);
    if let Some(profile) = &device.profile {
        let (model, depth) = modelled_by(profile).map_err(|e| over("taking the profile", e))?;
        local = local.modelled(model, depth, policy);
    } else if let Policy::Static(shares) = policy {
        let share = shares.first().copied().unwrap_or(0);
        let side = |n| if is_flagged(n, share) { Commit::Core } else { Commit::Link };
        local = local.on_sides((0..u64::from(STEPS)).map(side).collect());
    }
    Ok(PushDevice::Local(Box::new(local)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_device::profile::machine::MachineSpec;
    use littoral_push::api::{Host, Plan, Scan};
    use littoral_push::page::Value;

    #[test]
    fn media_of_kind_push_open_store_and_scan() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "schema = \"littoral.machine/1\"\n[device.a]\nkind = \"push\"\nmedium = \"ram\"\n\
             profile = \"summarizer-board\"\n[device.b]\nkind = \"push\"\n\
             medium = \"file:{0}/b.set\"\n[device.c]\nkind = \"push\"\nmedium = \"unix:{0}/c\"\n",
            folder.path().display()
        );
        let machine = Machine::of(MachineSpec::parse(&text, "m.toml").unwrap(), "test");
        let schema = Schema::new(vec![Column::int("n", 0, 99)]).unwrap();
        let about = About::new(&schema, Format::Columns, 4096);
        for name in ["a", "b", "b"] {
            let mut host = Host::new(machine.push(name).unwrap(), 1, 8);
            if host.about().unwrap().rows == 0 {
                host.store(&about, (0..1000).map(|n| Ok(vec![Value::Int(n % 100)]))).unwrap();
            }
            let about = host.about().unwrap();
            let scan = Scan { filter: Some("n < 10".to_owned()), ..Scan::default() };
            let (program, shown) = scan.plan(&about).unwrap();
            let outcome = host.scan(&program, Plan::Push).unwrap();
            let rows = shown.rows(&about, &program, &outcome.answer).unwrap();
            assert_eq!(rows, [[Some("100".to_owned())]], "{name}");
            assert_eq!(host.device().outcome().is_some(), name == "a");
        }
        let absent = machine.push("c").err().unwrap().to_string();
        assert!(absent.contains("push serve"), "{absent}");
        let checked = machine.check();
        assert!(checked[0].found.is_ok() && checked[1].found.is_ok() && checked[2].found.is_err());
    }
}
