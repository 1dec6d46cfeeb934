//! Processor: cores, caches, vectors, cache-line write-back, the clock and performance counters.

use super::{Fact, Host};

impl Host {
    pub(super) fn cpu(&self) -> Vec<Fact> {
        vec![
            self.cores(),
            self.caches(),
            self.virtualised(),
            self.vectors("avx2", "AVX2", &["avx2"]),
            self.vectors("avx512", "AVX-512", &["avx512f", "avx512bw", "avx512vl"]),
            self.write_back(),
            self.tsc(),
            self.clocksource(),
            self.governor(),
            self.counters(),
        ]
    }

    fn has_flag(&self, flag: &str) -> bool {
        let text = self.read("proc/cpuinfo").unwrap_or_default();
        // x86 says `flags`, Arm says `Features`, LoongArch `Features` too.
        let line = text.lines().find(|l| l.starts_with("flags") || l.starts_with("Features"));
        line.unwrap_or_default().split_whitespace().any(|f| f == flag)
    }

    fn cores(&self) -> Fact {
        let own =
            std::thread::available_parallelism().map_or("unknown".to_owned(), |n| n.to_string());
        let text = self.read("proc/cpuinfo").unwrap_or_default();
        let model = text.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": "));
        let model = model.map_or(String::new(), |(_, name)| format!("; {name}"));
        Fact::plain("cores", "cores", format!("{own} this process may use{model}"))
    }

    fn caches(&self) -> Fact {
        const FOLDER: &str = "sys/devices/system/cpu/cpu0/cache";
        let row = |index: &String| {
            let get = |key: &str| self.word(&format!("{FOLDER}/{index}/{key}"));
            let kind = match get("type")?.as_str() {
                "Data" => "d",
                "Instruction" => "i",
                _ => "",
            };
            Some(format!("L{}{kind} {}", get("level")?, get("size")?))
        };
        let rows: Vec<String> = self.entries(FOLDER, "index").iter().filter_map(row).collect();
        let words = if rows.is_empty() { "unknown".to_owned() } else { rows.join(", ") };
        Fact::plain("caches", "caches", words)
    }

    fn virtualised(&self) -> Fact {
        let vendor = self.word("sys/class/dmi/id/sys_vendor").map(|v| format!(" ({v})"));
        let machine = match self.has_flag("hypervisor") {
            true => format!("a virtual machine{}", vendor.unwrap_or_default()),
            false => "no hypervisor is announced".to_owned(),
        };
        let marks = [".dockerenv", "run/.containerenv"];
        let inside = marks.iter().any(|m| self.root.join(m).exists());
        let container = if inside { ", in a container" } else { "" };
        let mut fact = Fact::plain("virtualised", "virtualised", format!("{machine}{container}"));
        if self.has_flag("hypervisor") {
            let what = "other guests take processor time unseen: repeat measurements, and compare \
                        only what was interleaved in one run";
            fact.advice = Some(what.to_owned());
        }
        fact
    }

    fn vectors(&self, id: &'static str, name: &'static str, flags: &[&str]) -> Fact {
        let lacks: Vec<&str> = flags.iter().copied().filter(|f| !self.has_flag(f)).collect();
        match lacks.is_empty() {
            true => Fact::judged(id, name, true, flags.join(", ")),
            false => Fact::judged(id, name, false, format!("without {}", lacks.join(", "))),
        }
    }

    fn write_back(&self) -> Fact {
        let known = ["clwb", "clflushopt", "clflush", "dcpop"];
        let has: Vec<&str> = known.into_iter().filter(|f| self.has_flag(f)).collect();
        let (id, name) = ("write_back", "cache-line write-back");
        match has.first() {
            Some(best) => {
                let rest =
                    if has.len() > 1 { format!(" of {}", has.join(", ")) } else { "".into() };
                let fact = Fact::judged(id, name, true, format!("{best} is used{rest}"));
                match *best {
                    "clflush" => with(
                        fact,
                        "clflush also evicts and orders: durable updates cost \
                                             more here than with clwb",
                    ),
                    _ => fact,
                }
            }
            None => Fact::judged(id, name, false, "no instruction found; msync stands in")
                .or("persistent memory needs clwb, clflushopt or DC CVAP; files need none"),
        }
    }

    fn tsc(&self) -> Fact {
        let (id, name) = ("tsc", "time-stamp counter");
        if self.has_flag("constant_tsc") && self.has_flag("nonstop_tsc") {
            let words = "constant and never stopping: paced devices keep time by it";
            return Fact::judged(id, name, true, words);
        }
        Fact::judged(id, name, false, "not known to be invariant: paced figures may drift")
            .or("take virtual-time and count figures here, and paced ones on another host")
    }

    fn clocksource(&self) -> Fact {
        const FOLDER: &str = "sys/devices/system/clocksource/clocksource0";
        let (id, name) = ("clocksource", "clock source");
        let Some(current) = self.word(&format!("{FOLDER}/current_clocksource")) else {
            return Fact::plain(id, name, "unknown");
        };
        let slow = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];
        if !slow.contains(&current.as_str()) {
            return Fact::judged(id, name, true, current);
        }
        let words = format!("{current}: reading the time is a system call of about a microsecond");
        Fact::judged(id, name, false, words).or(format!(
            "`echo tsc > /{FOLDER}/current_clocksource` where available_clocksource has it"
        ))
    }

    fn governor(&self) -> Fact {
        let (id, name) = ("governor", "frequency governor");
        match self.word("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
            None => Fact::plain(id, name, "unknown: the host does not show it"),
            Some(mode) if mode == "performance" => Fact::judged(id, name, true, mode),
            Some(mode) => Fact::judged(id, name, false, format!("{mode}: clocks follow the load"))
                .or("`cpupower frequency-set -g performance` before measuring"),
        }
    }

    fn counters(&self) -> Fact {
        let (id, name) = ("perf", "performance counters");
        let unit = self.entries("sys/bus/event_source/devices", "cpu").into_iter().next();
        let level = self.word("proc/sys/kernel/perf_event_paranoid");
        let level: Option<i32> = level.and_then(|l| l.parse().ok());
        match (unit, level) {
            (Some(unit), Some(level)) if level <= 2 => {
                Fact::judged(id, name, true, format!("{unit}; perf_event_paranoid is {level}"))
            }
            (Some(unit), Some(level)) => {
                let words = format!("{unit}, but perf_event_paranoid is {level}");
                Fact::judged(id, name, false, words).or("`sysctl kernel.perf_event_paranoid=2`")
            }
            (None, Some(_)) => {
                Fact::judged(id, name, false, "the host offers no hardware counters")
                    .or("a virtual machine shows them only where its host passes them through")
            }
            (_, None) => Fact::judged(id, name, false, "the kernel has no perf events"),
        }
    }
}

fn with(mut fact: Fact, advice: &str) -> Fact {
    fact.advice = Some(advice.to_owned());
    fact
}
