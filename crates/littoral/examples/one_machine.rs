//! A social graph on one machine: members in a key-value store, friendships walked from flash,
//! visits counted in durable transactions, ranks computed in shared memory.
//!
//! ```text
//! cargo run --example one_machine -- MACHINE.toml FOLDER [MEMBERS]
//! ```
//!
//! The machine file names four devices: `members` (zoned), `edges` (flash), `visits` (memory) and
//! `ranks` (fabric). The program never asks which of them are modelled: it runs on a modelled and
//! on a file-backed machine by changing the file alone.
//!
//! Each member that joins is put into the store, then one transaction counts its visit and notes
//! that the member is done. After a kill the program goes on with the first member that is not
//! done; putting a member again changes nothing. On memory that does not outlive a process it
//! begins again.
//!
//! The last lines are the answers of [`in_memory`], a plain program on ordinary collections.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use littoral::Machine;
use littoral::base::clock::WallClock;
use littoral::device::pmem::AnyDomain;
use littoral::device::profile::machine::Medium;
use littoral::dsm::job::{Homes, Job, block_of};
use littoral::dsm::launch::{BASE, Plan, run as launch};
use littoral::dsm::virtual_time::Compute;
use littoral::fabric::SILENCE_DEFAULT;
use littoral::graph::builder::write::{build, to_file};
use littoral::graph::builder::{BuildOptions, EdgeList, Existing, Hooks};
use littoral::graph::format::file::GraphFile;
use littoral::graph::kernels::{self, Answer, Kernel};
use littoral::graph::medium::Store;
use littoral::heap::structures::{HashMap, Map as _};
use littoral::heap::{self, Pool};
use littoral::kv::{self, Access, Kv, New};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The key under which the heap keeps how many members are done.
const DONE: u64 = u64::MAX;
/// Rounds of ranking, in integers of this many units of rank per member.
const ROUNDS: usize = 12;
const UNITS: u64 = 1 << 20;

/// What the program is to do.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// The machine file.
    pub(crate) machine: PathBuf,
    /// Where what is on no device is kept.
    pub(crate) folder: PathBuf,
    /// Members that join.
    pub(crate) members: u32,
    /// The command line of this program, for the ranks' processes.
    pub(crate) command: Vec<String>,
}

/// What the program tells of its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This member has joined.
    Joined(u64),
    /// The graph's file is made, if it is not there.
    Building,
    /// The edges are walked.
    Walking,
    /// The ranks' job runs.
    Ranking,
}

/// A member's profile.
fn profile(member: u32) -> u64 {
    u64::from(member).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Whose page a member visits when it joins.
fn visited(member: u32) -> u64 {
    profile(member) % (u64::from(member) + 1)
}

/// Friendships: each member knows up to three who came before.
fn friendships(members: u32) -> Vec<[u32; 2]> {
    let friend = |m: u32, k: u64| [m, (profile(m).rotate_left(7 * k as u32) % u64::from(m)) as u32];
    let all = (1..members).flat_map(|m| (0..u64::from(m % 3) + 1).map(move |k| friend(m, k)));
    let mut all: Vec<[u32; 2]> = all.collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Friends of each member.
fn friends(members: u32) -> Vec<Vec<u32>> {
    let mut friends = vec![Vec::new(); members as usize];
    for [a, b] in friendships(members) {
        friends[a as usize].push(b);
        friends[b as usize].push(a);
    }
    friends
}

/// A member's new rank: a seventh of a unit and six sevenths of what its friends hand on.
fn new_rank(friends: &[Vec<u32>], ranks: &[u64], member: usize) -> u64 {
    let share = |&f: &u32| ranks[f as usize] / friends[f as usize].len().max(1) as u64;
    UNITS / 7 + friends[member].iter().map(share).sum::<u64>() / 7 * 6
}

/// The answers as text.
fn answers(
    profiles: &BTreeMap<u32, u64>,
    levels: &BTreeMap<u32, u32>,
    visits: &BTreeMap<u64, u64>,
    ranks: &[u64],
) -> String {
    let mut text = String::new();
    for (member, profile) in profiles {
        let level = levels.get(member).map_or("-".to_owned(), u32::to_string);
        let visits = visits.get(&u64::from(*member)).unwrap_or(&0);
        let rank = ranks[*member as usize];
        writeln!(text, "{member} {profile:016x} level {level} visits {visits} rank {rank}")
            .expect("a string takes all");
    }
    text
}

/// What a plain program finds, on ordinary collections of this process.
pub(crate) fn in_memory(members: u32) -> String {
    let profiles = (0..members).map(|m| (m, profile(m))).collect();
    let mut visits = BTreeMap::new();
    (0..members).for_each(|m| *visits.entry(visited(m)).or_insert(0) += 1);
    let friends = friends(members);
    let mut levels = BTreeMap::from([(0, 0)]);
    let mut queue = VecDeque::from([0u32]);
    while let Some(member) = queue.pop_front() {
        for &f in &friends[member as usize] {
            if !levels.contains_key(&f) {
                levels.insert(f, levels[&member] + 1);
                queue.push_back(f);
            }
        }
    }
    let mut ranks = vec![UNITS; members as usize];
    for _ in 0..ROUNDS {
        ranks = (0..ranks.len()).map(|m| new_rank(&friends, &ranks, m)).collect();
    }
    answers(&profiles, &levels, &visits, &ranks)
}

/// The file of one of the machine's devices that a process has to make first.
fn file_of(machine: &Machine, device: &str) -> Result<Option<PathBuf>, Error> {
    let medium = &machine.spec().device(device)?.medium;
    let is_file = matches!(medium, Medium::File(_) | Medium::Uring(_) | Medium::Mmap(_));
    Ok(medium.path().filter(|_| is_file).map(Path::to_path_buf))
}

/// The members' store. A store whose creation was cut short is made again.
fn open_members(machine: &Machine, folder: &Path) -> Result<Kv, Error> {
    let at = folder.join("members");
    if at.join("device.toml").exists() || at.join("zones").exists() {
        return Ok(kv::open_with(&at, machine, Some("members"), Access::Write)?);
    }
    if let Some(path) = file_of(machine, "members")?.filter(|p| p.exists()) {
        std::fs::remove_file(path)?;
    }
    let (machine, device) = (Some(machine.clone()), Some("members".to_owned()));
    Ok(kv::create(&at, &New { id: 1, machine, device, ..New::default() })?)
}

/// The heap of visits, with its table. A heap whose creation was cut short is made again.
fn open_visits(machine: &Machine) -> Result<(Pool<AnyDomain>, u64), Error> {
    let path = file_of(machine, "visits")?.filter(|p| p.exists());
    let pool = match path {
        Some(path) => match heap::open_on(machine, "visits") {
            Err(e) if e.kind() == heap::Kind::Foreign => {
                std::fs::remove_file(path)?;
                heap::create_on(machine, "visits", &heap::Options::default())?
            }
            opened => opened?,
        },
        None => heap::create_on(machine, "visits", &heap::Options::default())?,
    };
    let mut thread = pool.thread()?;
    let done = thread.atomically(|tx| {
        let table = match tx.root("visits")? {
            Some(at) => HashMap::open(tx, at)?,
            None => {
                let table = HashMap::create(tx, 1000)?;
                tx.set_root("visits", table.at())?;
                table
            }
        };
        Ok(table.get(tx, DONE)?.unwrap_or(0))
    })?;
    drop(thread);
    Ok((pool, done))
}

/// Lets every member join that is not done; `step` hears of each.
fn join_all(
    task: &Task,
    store: &mut Kv,
    (pool, done): (&Pool<AnyDomain>, u64),
    step: &mut dyn FnMut(Step),
) -> Result<(), Error> {
    let mut thread = pool.thread()?;
    for member in done as u32..task.members {
        store.put(&u64::from(member).to_be_bytes(), &profile(member).to_be_bytes())?;
        thread.atomically(|tx| {
            let at = tx.root("visits")?.expect("the table was made when the heap was opened");
            let table = HashMap::open(tx, at)?;
            let count = table.get(tx, visited(member))?.unwrap_or(0);
            table.insert(tx, visited(member), count + 1)?;
            table.insert(tx, DONE, u64::from(member) + 1).map(drop)
        })?;
        step(Step::Joined(u64::from(member)));
    }
    Ok(())
}

/// The graph's file: written once, whole or not at all.
fn graph_file(machine: &Machine, task: &Task) -> Result<GraphFile, Error> {
    let path = file_of(machine, "edges")?.unwrap_or_else(|| task.folder.join("edges.lg"));
    if !path.exists() {
        let edges = EdgeList::new(task.members, false, friendships(task.members));
        let mut hooks = Hooks::none();
        let options = BuildOptions { threads: 1, ..BuildOptions::default() };
        to_file(&path, Existing::Refuse, |out, path| {
            build(edges, &options, out, path, &mut hooks)
        })?;
    }
    Ok(GraphFile::open(&path)?)
}

/// Levels of a search from member 0, with the edges on the machine's flash.
fn walk(machine: &Machine, graph: &GraphFile) -> Result<BTreeMap<u32, u32>, Error> {
    let store = Store::new(graph, machine.flash("edges")?)?;
    let names = graph.names()?;
    let source = names.find("0")?;
    let options =
        kernels::Options { sources: vec![source], trials: 1, verify: true, ..Default::default() };
    let found = kernels::run(graph, &store, Kernel::Bfs, &options, &WallClock::new())?;
    let Answer::Bfs(parents) = found.1 else { return Err("a search answers with parents".into()) };
    let level = |start: u32| {
        let (mut at, mut level) = (start, 0);
        while at != source {
            at = parents[at as usize];
            level += 1;
        }
        level
    };
    let is_reached = |v: &u32| parents[*v as usize] != kernels::UNREACHED;
    let rows = (0..graph.vertices()).filter(is_reached).map(|v| (names.name(v), level(v)));
    rows.map(|(name, level)| Ok((name.parse()?, level))).collect()
}

/// Ranks of all members, computed by processes that share memory.
fn rank(machine: &Machine, task: &Task) -> Result<Vec<u64>, Error> {
    let job = machine.job("ranks", Compute::Declared)?;
    let plan = Plan {
        ranks: job.nodes,
        fabric: job.fabric,
        hosts: job.hosts,
        pool: job.pool,
        program: task.command[0].clone().into(),
        arguments: task.command[1..].iter().map(Into::into).collect(),
        bytes_max: 1 << 30,
        address: BASE,
        label: false,
        silence: SILENCE_DEFAULT,
        variables: Vec::new(),
    };
    let end = launch::run(&plan, &|| false)?;
    if end.code != 0 {
        return Err(format!("the ranks' job ended with code {}", end.code).into());
    }
    let text = std::fs::read_to_string(task.folder.join("ranks"))?;
    Ok(text.lines().map(str::parse).collect::<Result<_, _>>()?)
}

/// One rank of that job: its block of members, round by round between barriers.
pub(crate) fn be_a_rank(task: &Task) -> Result<(), Error> {
    let mut job = Job::join()?;
    let (friends, len) = (friends(task.members), task.members as usize);
    let tables =
        [job.alloc_slice::<u64>(len, Homes::Blocks)?, job.alloc_slice::<u64>(len, Homes::Blocks)?];
    let mine = block_of(len, job.rank(), job.ranks());
    let phase = job.phase()?;
    phase.write(tables[0].part(mine.clone()))?.fill(UNITS);
    phase.end()?;
    for round in 0..ROUNDS {
        let phase = job.phase()?;
        let old = phase.read(tables[round % 2])?;
        let mut new = phase.write(tables[1 - round % 2].part(mine.clone()))?;
        for (at, member) in mine.clone().enumerate() {
            new[at] = new_rank(&friends, &old, member);
        }
        drop((old, new));
        phase.end()?;
    }
    let phase = job.phase()?;
    if phase.rank() == 0 {
        let ranks = phase.read(tables[ROUNDS % 2])?;
        let lines: Vec<String> = ranks.iter().map(u64::to_string).collect();
        // Whole or not at all: this process may be killed with the one that started it.
        let draft = task.folder.join(format!("ranks.{}", std::process::id()));
        std::fs::write(&draft, lines.join("\n"))?;
        std::fs::rename(draft, task.folder.join("ranks"))?;
    }
    phase.end()?;
    job.finish()?;
    Ok(())
}

/// Runs the whole program; `step` hears of each member that has joined and of what follows.
pub(crate) fn run(task: &Task, step: &mut dyn FnMut(Step)) -> Result<String, Error> {
    let machine = Machine::open(Some(&task.machine))?;
    let mut store = open_members(&machine, &task.folder)?;
    let (pool, done) = open_visits(&machine)?;
    join_all(task, &mut store, (&pool, done), step)?;
    let mut profiles = BTreeMap::new();
    store.scan(None, None, |key, value| {
        let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("eight bytes"));
        profiles.insert(number(key) as u32, number(value));
        true
    })?;
    let mut visits = BTreeMap::new();
    pool.thread()?.read_only(|tx| {
        let at = tx.root("visits")?.expect("the table was made when the heap was opened");
        let table = HashMap::open(tx, at)?;
        for member in 0..u64::from(task.members) {
            if let Some(count) = table.get(tx, member)? {
                visits.insert(member, count);
            }
        }
        Ok(())
    })?;
    step(Step::Building);
    let graph = graph_file(&machine, task)?;
    step(Step::Walking);
    let levels = walk(&machine, &graph)?;
    step(Step::Ranking);
    let ranks = rank(&machine, task)?;
    Ok(answers(&profiles, &levels, &visits, &ranks))
}

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().collect();
    let [_, machine, folder, rest @ ..] = &words[..] else {
        return Err("usage: one_machine MACHINE.toml FOLDER [MEMBERS]".into());
    };
    let members = rest.first().map_or(Ok(500), |n| n.parse())?;
    let mut command = words.clone();
    command[0] = std::env::current_exe()?.display().to_string();
    let task = Task { machine: machine.into(), folder: folder.into(), members, command };
    if std::env::var_os("LITTORAL_DSM_RANK").is_some() {
        return be_a_rank(&task);
    }
    let found = run(&task, &mut |_| ())?;
    let is_right = found == in_memory(members);
    std::io::stdout().write_all(found.as_bytes())?;
    if is_right { Ok(()) } else { Err("a plain program finds something else".into()) }
}
