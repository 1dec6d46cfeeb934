//! A device that a command asks for: a machine file and a name, or shorthand that builds a machine
//! of one device.
//!
//! Every command reads these words through [`Choice`], so that they mean the same everywhere: a
//! [`Word`] is read in one place, and commands match on the enum.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use littoral_device::profile::machine::{DeviceSpec, MachineSpec, Medium};
use littoral_device::profile::{DeviceKind, Interface, Profile, Transfer, suggestion};
use littoral_device::{Error, Kind, Result};

use super::Machine;

/// A medium as an option spells it: a word, or a medium as machine files spell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// In DRAM, nothing modelled.
    Dram,
    /// Modelled flash without doorbells.
    Flash,
    /// Modelled flash behind a queue pair with doorbells.
    Nvme,
    /// The job's file, by io_uring.
    Uring,
    /// The job's file, by a pool of threads.
    Pread,
    /// The job's file, mapped into memory.
    Mmap,
    /// A medium as machine files spell it.
    Exact(Medium),
}

impl Word {
    /// The short words.
    pub const SHORT: [(&'static str, Word); 6] = [
        ("dram", Word::Dram),
        ("flash", Word::Flash),
        ("nvme", Word::Nvme),
        ("uring", Word::Uring),
        ("pread", Word::Pread),
        ("mmap", Word::Mmap),
    ];

    /// Whether the medium is a model, which takes a profile.
    pub fn is_modelled(&self) -> bool {
        matches!(self, Word::Flash | Word::Nvme)
    }

    /// The profile of a model for which none is named.
    fn profile_default(&self) -> Option<&'static str> {
        match self {
            Word::Flash => Some("xlfdd"),
            Word::Nvme => Some("nvme-tlc"),
            _ => None,
        }
    }

    fn medium(&self, file: Option<&Path>) -> Result<Medium> {
        let own_file = || {
            file.map(Path::to_path_buf).ok_or_else(|| {
                let what = "this medium reads the job's file, and the job has none in a file: \
                            write it to one first";
                Error::new(Kind::IllegalRequest, what)
            })
        };
        Ok(match self {
            Word::Dram | Word::Flash | Word::Nvme => Medium::Ram,
            Word::Uring => Medium::Uring(own_file()?),
            Word::Pread => Medium::File(own_file()?),
            Word::Mmap => Medium::Mmap(own_file()?),
            Word::Exact(medium) => medium.clone(),
        })
    }
}

impl FromStr for Word {
    type Err = Error;
    fn from_str(text: &str) -> Result<Word> {
        if let Some((_, word)) = Self::SHORT.iter().find(|(name, _)| *name == text) {
            return Ok(word.clone());
        }
        let scheme = text.split(':').next().unwrap_or(text);
        if Medium::SCHEMES.iter().any(|known| known.trim_end_matches(':') == scheme) {
            return Medium::parse(text).map(Word::Exact);
        }
        let short = Self::SHORT.iter().map(|(name, _)| *name);
        let hint = suggestion(scheme, short.chain(Medium::SCHEMES));
        Err(Error::new(Kind::Profile, format!("unknown medium `{text}`{hint}")))
    }
}

/// What a command was asked to run on.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// A machine file.
    pub machine: Option<PathBuf>,
    /// One of its devices.
    pub device: Option<String>,
    /// Shorthand: the medium of a machine of one device.
    pub medium: Option<Word>,
    /// Shorthand: what that device is modelled by.
    pub profile: Option<String>,
    /// Shorthand: whether copies are charged to the host.
    pub copies: bool,
}

impl Choice {
    /// Whether anything was asked for.
    pub fn is_given(&self) -> bool {
        self.machine.is_some() || self.medium.is_some() || self.profile.is_some()
    }

    /// The machine and the name of its device of `kind`; `file` is the job's own, `otherwise` the
    /// medium when nothing was asked for.
    ///
    /// # Errors
    /// Those of the machine file; `Kind::Profile` as
    /// [`MachineSpec::choose`](littoral_device::profile::machine::MachineSpec::choose) and for a
    /// profile without a model, `Kind::IllegalRequest` for a device without a machine.
    pub fn resolve(
        &self,
        kind: DeviceKind,
        file: Option<&Path>,
        otherwise: Word,
    ) -> Result<(Machine, String)> {
        if let Some(path) = &self.machine {
            let machine = Machine::open(Some(path))?;
            let name = machine.spec().choose(kind, self.device.as_deref())?.name.clone();
            return Ok((machine, name));
        }
        let word = self.medium.clone().unwrap_or(otherwise);
        let device = self.short_device(kind, &word, file)?;
        let name = device.name.clone();
        Ok((Machine::of(MachineSpec::one(device), "options"), name))
    }

    /// The one device that shorthand describes.
    fn short_device(
        &self,
        kind: DeviceKind,
        word: &Word,
        file: Option<&Path>,
    ) -> Result<DeviceSpec> {
        let medium = word.medium(file)?;
        if !kind.media().contains(&medium.scheme()) {
            let (legal, wanted) = (kind.media().join(", "), kind.name());
            let what = format!("--medium {medium}: a {wanted} device takes {legal}");
            return Err(Error::new(Kind::Profile, what));
        }
        let mut device = DeviceSpec::new(kind.name(), kind, medium);
        let takes_profile = word.is_modelled() || *word == Word::Exact(Medium::Ram);
        if !takes_profile && (self.profile.is_some() || self.copies) {
            let what = match kind {
                DeviceKind::Flash => {
                    "--profile and --copy go with models: --medium flash or nvme".to_owned()
                }
                _ => {
                    format!("--profile goes with a model, --medium ram; not with {}", device.medium)
                }
            };
            return Err(Error::new(Kind::Profile, what));
        }
        if *word == Word::Nvme && self.copies {
            let what = "--copy goes with --medium flash only";
            return Err(Error::new(Kind::Profile, what));
        }
        let named = self.profile.as_deref().or(word.profile_default());
        if let Some(name) = named {
            match kind {
                DeviceKind::Fabric => {
                    let (profile, configuration) = Profile::configured(name)?;
                    device.profile = Some(profile);
                    device.configuration = Some(configuration);
                }
                _ => device.profile = Some(Profile::open(name)?.expect_kind(kind)?.clone()),
            }
        }
        device.interface = match (word, device.profile.as_ref().and_then(Profile::interface)) {
            (Word::Nvme, _) => Some(Interface::Doorbell),
            (Word::Flash, Some(Interface::Doorbell)) => Some(Interface::Lightweight),
            _ => None,
        };
        device.transfer = if self.copies { Transfer::Copy } else { Transfer::Pointer };
        Ok(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_short_one_or_a_medium_and_mistakes_name_the_nearest() {
        assert_eq!("mmap".parse::<Word>().unwrap(), Word::Mmap);
        assert_eq!("file:a".parse::<Word>().unwrap(), Word::Exact(Medium::File("a".into())));
        for (text, wanted) in [
            ("flsh", "did you mean `flash`?"),
            ("urng:x", "did you mean `uring`?"),
            ("file:", "names no place"),
        ] {
            let refused = text.parse::<Word>().unwrap_err().to_string();
            assert!(refused.contains(wanted), "{refused}");
        }
    }

    #[test]
    fn shorthand_is_a_machine_of_one_device() {
        let choice = |medium: Option<Word>, profile: Option<&str>, copies| Choice {
            medium,
            profile: profile.map(str::to_owned),
            copies,
            ..Choice::default()
        };
        let file = Some(Path::new("a.lg"));
        let flash = |c: &Choice| c.resolve(DeviceKind::Flash, file, Word::Dram);
        let (machine, name) = flash(&choice(None, None, false)).unwrap();
        let device = machine.spec().device(&name).unwrap();
        assert_eq!((&device.medium, &device.profile), (&Medium::Ram, &None));
        let (machine, name) = flash(&choice(Some(Word::Nvme), None, false)).unwrap();
        let device = machine.spec().device(&name).unwrap();
        assert_eq!(device.profile.as_ref().unwrap().name(), "nvme-tlc");
        let (machine, name) = flash(&choice(Some(Word::Uring), None, false)).unwrap();
        assert_eq!(machine.spec().device(&name).unwrap().medium, Medium::Uring("a.lg".into()));
        for (choice, words) in [
            (choice(None, Some("xlfdd"), false), "go with models"),
            (choice(Some(Word::Mmap), None, true), "go with models"),
            (choice(Some(Word::Nvme), None, true), "--medium flash only"),
            (choice(Some(Word::Flash), Some("zns-ssd"), false), "wanted flash"),
            (choice(Some(Word::Exact(Medium::Zbd("x".into()))), None, false), "flash device takes"),
        ] {
            let refused = flash(&choice).unwrap_err();
            assert!(refused.to_string().contains(words), "{refused}");
        }
        let none =
            choice(Some(Word::Uring), None, false).resolve(DeviceKind::Flash, None, Word::Dram);
        assert!(none.unwrap_err().to_string().contains("write it to one first"));
    }
}
