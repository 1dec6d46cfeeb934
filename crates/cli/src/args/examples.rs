//! Examples and exit codes of each command, for `--help` and the manual pages.
//!
//! - Each command has an example, each example parses as a shell takes it apart, and each option
//!   and claim it names exists (tests).
//! - `-h` ends with the examples, `--help` and the manual pages with the exit codes too.

use clap::Command;
use littoral::graph::kernels::Kernel;

/// An example's command line and what it does.
type Example = (&'static str, &'static str);

const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "graph import",
        &[
            ("littoral graph import web.el web.lg", "from a list of pairs of numbers"),
            ("littoral graph import deps.csv.zst deps.lg --columns 2,3", "from compressed CSV"),
        ],
    ),
    ("graph gen", &[("littoral graph gen kron --scale 20 k20.lg", "16 million edges")]),
    ("graph info", &[("littoral graph info web.lg --format json", "what the file holds")]),
    ("graph check", &[("littoral graph check web.lg", "every checksum and list")]),
    (
        "graph convert",
        &[
            ("littoral graph convert web.lg web.mtx", "as a matrix for other programs"),
            ("littoral graph convert roads.gr roads.csv", "from one format to another"),
        ],
    ),
    (
        "graph neighbors",
        &[("littoral graph neighbors examples/packages.tsv.zst bash", "what bash depends on")],
    ),
    (
        "graph path",
        &[("littoral graph path examples/flights.csv Oslo Rome", "the least sum of weights")],
    ),
    ("graph degree", &[("littoral graph degree web.lg --top 20", "the hubs")]),
    (
        "graph whatif",
        &[
            ("littoral graph whatif examples/packages.tsv.zst", "the grid of devices"),
            (
                "littoral graph whatif web.lg --profile xlfdd,nvme-tlc,mine.toml --dram 4GiB",
                "devices by name, with 4 GiB of DRAM for vertex state and the hottest edges",
            ),
            ("littoral graph whatif web.lg --html web.html", "heat maps and curves as one page"),
            ("littoral graph whatif web.lg --machine m.toml", "a machine's modelled flash devices"),
            ("littoral graph whatif roads.lg --kernels sssp,bc", "two kernels' jobs alone"),
            ("littoral graph whatif web.lg --format json", "for `littoral report`"),
        ],
    ),
    (
        "kv create",
        &[
            ("littoral kv create towns --key-size 12", "a store in the folder towns"),
            ("littoral kv create s --engine cow --machine m.toml", "on a machine's zoned device"),
        ],
    ),
    (
        "kv load",
        &[
            ("littoral kv load towns towns.tsv", "a record per line"),
            ("littoral kv load towns - --ack done.txt", "from a pipe, with durable keys noted"),
        ],
    ),
    ("kv put", &[("littoral kv put towns bergen 60.39N", "durable when the command ends")]),
    (
        "kv get",
        &[
            ("littoral kv get towns bergen", "code 1 when there is none"),
            ("littoral kv get towns bergen --format json", "key and value as an object"),
        ],
    ),
    ("kv del", &[("littoral kv del towns bergen", "code 1 when there is none")]),
    ("kv scan", &[("littoral kv scan towns b d", "the keys from b on, without d")]),
    ("kv dump", &[("littoral kv dump towns", "as `kv load` takes them")]),
    ("kv stats", &[("littoral kv stats towns", "records and space")]),
    ("kv check", &[("littoral kv check towns", "every invariant")]),
    ("kv repair", &[("littoral kv repair towns saved", "towns is left as it is")]),
    ("kv backup", &[("littoral kv backup towns towns.kvbak", "one file, read back")]),
    ("kv restore", &[("littoral kv restore towns.kvbak again", "a new store")]),
    (
        "machine",
        &[
            ("littoral machine", "the host, the devices, the shipped profiles"),
            ("littoral machine --file m.toml", "the devices of a machine file"),
        ],
    ),
    (
        "machine profiles",
        &[
            ("littoral machine profiles", "what is shipped"),
            ("littoral machine profiles nvme-tlc", "its figures and their sources"),
        ],
    ),
    ("machine check", &[("littoral machine check m.toml", "every device that is there is opened")]),
    ("machine new", &[("littoral machine new m.toml", "a commented file to change")]),
    (
        "doctor",
        &[
            ("littoral doctor", "what this host offers, with advice"),
            ("littoral doctor --require io_uring,huge_pages", "code 1 where one is missing"),
        ],
    ),
    ("machine zones", &[("littoral machine zones --file m.toml", "the zones of each device")]),
    (
        "la64 run",
        &[("littoral la64 run -L /opt/loong --stats ./a.out", "a dynamically linked program")],
    ),
    ("la64 disasm", &[("littoral la64 disasm a.out", "its executable segments")]),
    ("la64 binfmt", &[("littoral la64 binfmt", "for /proc/sys/fs/binfmt_misc/register")]),
    ("heap create", &[("littoral heap create a.pool --size 64MiB", "an empty pool")]),
    ("heap info", &[("littoral heap info a.pool", "types, roots and the promise")]),
    ("heap check", &[("littoral heap check a.pool", "every version and root")]),
    ("heap dump", &[("littoral heap dump a.pool", "a line per object")]),
    (
        "dsm run",
        &[
            ("littoral dsm run -n 4 ./stencil", "four ranks on this machine"),
            (
                "littoral dsm run -n 4 --fabric sim --profile rdma ./stencil",
                "in virtual time on an interconnect",
            ),
        ],
    ),
    ("dsm bench", &[("littoral dsm bench lock --fabric tcp", "a lock over TCP")]),
    (
        "dsm model",
        &[("littoral dsm model water --ranks 4,8,16 --profile rdma", "time and speed-up")],
    ),
    (
        "push gen",
        &[("littoral push gen lineitem.set --scale 0.1", "TPC-H's lineitem, 600,000 records")],
    ),
    (
        "push load",
        &[
            ("littoral push load sales.csv sales.set", "the kinds of columns are found out"),
            ("littoral push load lineitem.tbl lineitem.set", "as dbgen writes it"),
        ],
    ),
    (
        "push run",
        &[
            (
                "littoral push run sales.set --where 'price > 10' --sum qty --by region",
                "sums per group",
            ),
            (
                "littoral push run lineitem.set --query q1 --profile summarizer-board",
                "on a modelled device, in virtual time",
            ),
            ("littoral push run unix:/tmp/device --sum qty", "on the device of `push serve`"),
            (
                "littoral push run lineitem.set --query q6 --function q6.elf",
                "a page function of one's own on the device",
            ),
        ],
    ),
    (
        "push sweep",
        &[("littoral push sweep lineitem.set --query q6", "each policy's time over the host's")],
    ),
    (
        "push whatif",
        &[
            ("littoral push whatif sales.set --where 'price > 10' --sum qty", "links by cores"),
            (
                "littoral push whatif sales.csv --sum qty --link 1G..8G --cores 1..16",
                "a table as it is, on a grid of one's own",
            ),
        ],
    ),
    (
        "push serve",
        &[(
            "littoral push serve sales.set --socket /tmp/device --link 300M",
            "a device of its own process, paced",
        )],
    ),
    ("bench ring", &[("littoral bench ring --trials 3 --array 1GiB", "steps and bounds")]),
    (
        "bench graph",
        &[("littoral bench graph web.lg --kernels bfs,pr", "on modelled flash, over DRAM")],
    ),
    ("bench heap", &[("littoral bench heap", "beside four other engines")]),
    (
        "bench kv",
        &[
            ("littoral bench kv --rate 5k --workload 1", "latencies in virtual time"),
            ("littoral bench kv --dir /mnt/disk --records 1000000", "on a file, by the wall clock"),
        ],
    ),
    (
        "repro",
        &[
            ("littoral repro zbtree --quick", "under 100 s on two cores"),
            ("littoral repro sdtm --only sdtm.assure", "a part"),
            ("littoral repro flash --quick --json flash.json", "results kept as they are made"),
            ("littoral repro flash --quick --json flash.json --resume", "after an interruption"),
            ("littoral repro jiajia --quick --strict", "code 1 when one is short or fails"),
            ("littoral repro loongarch --peers /opt/oracles", "beside QEMU and valgrind"),
            ("littoral repro latm --peers /opt/oracles", "translated MIPS64 programs, by count"),
            ("littoral repro latx --peers /opt/oracles", "translated x86-64 programs, by count"),
        ],
    ),
    ("report", &[("littoral report flash.json whatif.json -o report.html", "one page")]),
    (
        "completions",
        &[
            ("littoral completions bash", "for /etc/bash_completion.d"),
            ("littoral completions man --output man1", "a page per command"),
        ],
    ),
];

/// Commands that return the status of a program that they run.
const OF_GUESTS: [&str; 2] = ["la64 run", "dsm run"];

const CODES: &str = "\
Exit codes:
  0    done, or the reader of the output closed the pipe
  1    the question was asked properly and the answer is no
  2    the request is wrong: an option, an input file, an id
  3    the environment or an input or output operation failed
  4    a medium holds data that its checksums or invariants refute
  5    this build, platform or device does not support it
  130  interrupted by Ctrl-C or SIGTERM";

const GUEST_CODES: &str = "\
Exit codes:
  the program's own, or 128 and the number of the signal that ended it; before it runs:
  2    the request is wrong
  3    the environment or an input or output operation failed
  4    the program's file is damaged or is no ELF file (la64 run)
  5    this build, platform or device does not support it";

/// `command` with examples and exit codes at the end of each command's help.
pub(crate) fn added_to(command: Command) -> Command {
    with_help(command, String::new())
}

fn with_help(command: Command, path: String) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|c| c.get_name().to_owned())
        .filter(|name| name != "help")
        .collect();
    let inner = |name: &str| format!("{path} {name}").trim_start().to_owned();
    let command = names.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |verb| with_help(verb, inner(name)))
    });
    let codes = if OF_GUESTS.contains(&path.as_str()) { GUEST_CODES } else { CODES };
    match examples_of(&path) {
        Some(text) => {
            let long = format!("{text}\n\n{codes}");
            command.after_help(text).after_long_help(long)
        }
        None => command.after_long_help(codes),
    }
}

/// The examples of every command; a kernel brings its own.
fn all() -> Vec<(String, &'static [Example])> {
    let verb = |k: &Kernel| (format!("graph {}", k.name()), k.spec().examples);
    let kernels = Kernel::all();
    let fixed = EXAMPLES.iter().map(|(path, examples)| ((*path).to_owned(), *examples));
    fixed.chain(kernels.iter().map(verb)).collect()
}

fn examples_of(path: &str) -> Option<String> {
    let all = all();
    let (_, examples) = all.iter().find(|(p, _)| *p == path)?;
    let mut text = String::from("Examples:");
    for (line, words) in *examples {
        text.push_str(&format!("\n  {line}\n      {words}"));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command as Verb, command};
    use clap::Parser as _;

    /// Paths of the commands that do something by themselves.
    fn leaves(command: &Command, path: &str, found: &mut Vec<String>) {
        let verbs: Vec<&Command> =
            command.get_subcommands().filter(|c| c.get_name() != "help").collect();
        if verbs.is_empty() || !command.is_subcommand_required_set() && !path.is_empty() {
            found.push(path.to_owned());
        }
        for verb in verbs {
            leaves(verb, format!("{path} {}", verb.get_name()).trim_start(), found);
        }
    }

    #[test]
    fn every_command_has_an_example_and_every_example_a_command() {
        let mut paths = Vec::new();
        leaves(&command(), "", &mut paths);
        assert!(paths.len() > 30, "{paths:?}");
        for path in &paths {
            assert!(examples_of(path).is_some(), "`littoral {path}` has no example");
        }
        let unknown = all().into_iter().find(|(path, _)| !paths.contains(path));
        assert!(unknown.is_none(), "there is no command {unknown:?}");
    }

    /// The words of a line as a shell takes it apart: between single quotes anything is one word,
    /// and outside of them nothing means more than itself.
    fn shell_words(line: &str) -> Vec<&str> {
        let mut words = Vec::new();
        for (n, part) in line.split('\'').enumerate() {
            if n % 2 == 1 {
                words.push(part);
                continue;
            }
            let special = ['>', '<', '|', '&', ';', '*', '?', '$', '(', ')', '"'];
            assert!(!part.contains(special), "{line}: not quoted for a shell");
            words.extend(part.split_whitespace());
        }
        words
    }

    #[test]
    fn every_example_parses_as_the_command_it_stands_under() {
        for (path, examples) in all() {
            for (line, words) in examples {
                let parsed = Cli::try_parse_from(shell_words(line));
                assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
                assert!(line.starts_with(&format!("littoral {path}")), "{line}");
                assert!(!words.is_empty());
            }
        }
    }

    #[test]
    fn every_part_of_a_system_that_an_example_names_has_claims() {
        let mut parts = 0;
        for (_, examples) in all() {
            for (line, _) in examples {
                let Verb::Repro(args) = Cli::parse_from(shell_words(line)).command else {
                    continue;
                };
                let Some(prefix) = args.only else { continue };
                let claims = args.system.targets().unwrap().claims;
                assert!(claims.iter().any(|claim| claim.id.starts_with(&prefix)), "{line}");
                parts += 1;
            }
        }
        assert!(parts > 0);
    }

    #[test]
    fn help_and_manual_end_with_examples_and_codes() {
        let mut command = command();
        command.build();
        let import =
            command.find_subcommand_mut("graph").and_then(|c| c.find_subcommand_mut("gen"));
        let import = import.expect("graph gen is a command");
        let (short, long) =
            (import.render_help().to_string(), import.render_long_help().to_string());
        assert!(short.contains("littoral graph gen kron") && !short.contains("130"), "{short}");
        assert!(long.contains("littoral graph gen kron") && long.contains("130"), "{long}");
        let mut page = Vec::new();
        clap_mangen::Man::new(import.clone()).render(&mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("littoral graph gen kron") && page.contains("130"), "{page}");
    }
}
