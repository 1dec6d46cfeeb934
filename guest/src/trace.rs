//! The same seeded requests on a device and on its model.
//!
//! - Part one is requests of every kind, legal and not: writes at and away from the pointer, past
//!   the capacity, over a zone's end, appends, reads, open, close, finish, reset; then the limits
//!   of open and of active zones.
//! - Part two is a ZB+-tree on each, with changes, deletions and reopening.
//! - The model decides which requests a part makes; where drives may choose (which zone is closed
//!   to make room for another, whether an empty zone can be finished) nothing is asked of them.

use std::error::Error;

use littoral_base::codec::crc_append;
use littoral_base::rng::{self, Generator, Rng};
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::refusal::Refusal;
use littoral_device::zoned::zones::Geometry;
use littoral_device::zoned::{ZoneKind, ZoneReport, ZoneState, ZonedDevice};
use littoral_index::index::{Engine, Index};
use littoral_index::layout::Shape;
use littoral_index::zb::Direction;
use littoral_store::store::Durability;

use super::machine::say;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const SEED: u64 = 20_230_303;
const REQUESTS: u64 = 1500;
const CHANGES: u64 = 6000;

/// What a request came to: where it landed, or the rule that it broke.
type Outcome = std::result::Result<Option<Lba>, String>;

fn outcome<T>(done: littoral_device::Result<T>, landed: impl FnOnce(T) -> Option<Lba>) -> Outcome {
    done.map(landed).map_err(|e| match Refusal::of(&e) {
        Some(refusal) => format!("{refusal:?}"),
        None => e.to_string(),
    })
}

fn report(device: &impl ZonedDevice) -> Result<Vec<ZoneReport>> {
    Ok(device.report(ZoneId(0), device.limits().zones)?)
}

/// A model with the geometry that a device reports.
fn model_of(device: &impl ZonedDevice) -> Result<ModelDevice> {
    let (limits, zones) = (device.limits(), report(device)?);
    let conventional = zones.iter().filter(|z| z.kind == ZoneKind::Conventional).count();
    let sequential = zones.last().ok_or("a device without zones")?;
    Ok(ModelDevice::new(Geometry {
        block_bytes: limits.block_bytes,
        conventional_zones: conventional as u32,
        sequential_zones: limits.zones - conventional as u32,
        zone_blocks: sequential.size_blocks,
        capacity_blocks: sequential.capacity_blocks,
        open_zones_max: limits.open_zones_max,
        active_zones_max: limits.active_zones_max,
        append_blocks_max: limits.append_blocks_max,
    })?)
}

/// Runs both parts on the device that `open` opens and on its model.
pub(crate) fn compare<D: ZonedDevice>(name: &str, open: impl Fn() -> Result<D>) -> Result<()> {
    let mut device = open().map_err(|e| format!("{name}: {e}"))?;
    let mut model = model_of(&device)?;
    erase(&mut device)?;
    let (asked, refused) = requests(&mut device, &mut model).map_err(|e| format!("{name}: {e}"))?;
    limits(&mut device, &mut model).map_err(|e| format!("{name}: limits: {e}"))?;
    let sum = equal(&device, &model).map_err(|e| format!("{name}: {e}"))?;
    say(&format!("GUEST {name}: {asked} requests, {refused} refused alike, contents {sum:08x}"));
    erase(&mut device)?;
    drop(device);
    let mut model = model_of(&open()?)?;
    let records = tree(name, &open, &mut model).map_err(|e| format!("{name}: tree: {e}"))?;
    let sum = equal(&open()?, &model).map_err(|e| format!("{name}: tree: {e}"))?;
    say(&format!("GUEST {name}: a tree of {records} records, contents {sum:08x}"));
    Ok(())
}

/// Resets every sequential zone and clears the conventional ones.
fn erase(device: &mut impl ZonedDevice) -> Result<()> {
    let block = device.limits().block_bytes as usize;
    let zeros = vec![0; 64 * block];
    for z in report(device)? {
        if z.kind == ZoneKind::Sequential {
            device.reset(z.zone)?;
            continue;
        }
        let mut at = 0;
        while at < z.capacity_blocks {
            let n = 64.min(z.capacity_blocks - at);
            let ticket = device.write(Lba(z.start.0 + at), &zeros[..n as usize * block])?;
            device.wait(ticket)?;
            at += n;
        }
    }
    Ok(())
}

/// One request, as drawn.
#[derive(Clone, Debug)]
enum Request {
    Write(Lba, Vec<u8>),
    Append(ZoneId, Vec<u8>),
    Read(Lba, usize),
    Open(ZoneId),
    Close(ZoneId),
    Finish(ZoneId),
    Reset(ZoneId),
}

fn carry_out(device: &mut impl ZonedDevice, request: &Request) -> (Outcome, Vec<u8>) {
    let mut read = Vec::new();
    let done = match request {
        Request::Write(at, data) => {
            let written = device.write(*at, data).and_then(|t| device.wait(t));
            outcome(written, Some)
        }
        Request::Append(zone, data) => {
            let written = device.append(*zone, data).and_then(|t| device.wait(t));
            outcome(written, Some)
        }
        Request::Read(at, len) => {
            read.resize(*len, 0);
            outcome(device.read(*at, &mut read), |()| None)
        }
        Request::Open(z) => outcome(device.open(*z), |()| None),
        Request::Close(z) => outcome(device.close(*z), |()| None),
        Request::Finish(z) => outcome(device.finish(*z), |()| None),
        Request::Reset(z) => outcome(device.reset(*z), |()| None),
    };
    (done, read)
}

fn is_open(state: ZoneState) -> bool {
    matches!(state, ZoneState::ImplicitOpen | ZoneState::ExplicitOpen)
}

/// Whether the request would make the device open a zone when as many are open as may be.
fn would_evict(model: &ModelDevice, request: &Request) -> Result<bool> {
    let (limits, zones) = (model.limits(), report(model)?);
    let zone_blocks = zones[0].size_blocks;
    let zone = match request {
        Request::Write(at, _) => (at.0 / zone_blocks) as usize,
        Request::Append(z, _) | Request::Open(z) => z.index(),
        _ => return Ok(false),
    };
    let opens =
        zones.get(zone).is_some_and(|z| matches!(z.state, ZoneState::Empty | ZoneState::Closed));
    let open = zones.iter().filter(|z| is_open(z.state)).count() as u32;
    let active = open + zones.iter().filter(|z| z.state == ZoneState::Closed).count() as u32;
    let full = |n: u32, most: u32| most != 0 && n >= most;
    Ok(opens && (full(open, limits.open_zones_max) || full(active, limits.active_zones_max)))
}

fn draw(model: &ModelDevice, rng: &mut Generator) -> Result<Request> {
    let (limits, zones) = (model.limits(), report(model)?);
    let block = limits.block_bytes as usize;
    let z = zones[rng.random_range(0..zones.len())];
    let blocks = rng.random_range(1..=5u64);
    let fill = rng.random::<u8>();
    let data = |n: u64| {
        (0..n as usize * block).map(|i| fill.wrapping_add((i / block) as u8)).collect::<Vec<u8>>()
    };
    let inside = z.start.0 + rng.random_range(0..z.capacity_blocks - 5);
    Ok(match (rng.random_range(0..100), z.kind) {
        (0..40, ZoneKind::Conventional) => Request::Write(Lba(inside), data(blocks)),
        (0..36, ZoneKind::Sequential) => Request::Write(z.write_pointer, data(blocks)),
        (36..40, ZoneKind::Sequential) => {
            let left = z.start.0 + z.capacity_blocks - z.write_pointer.0;
            Request::Write(z.write_pointer, data(left.clamp(1, 200)))
        }
        (40..48, _) => Request::Write(Lba(z.write_pointer.0 + blocks), data(1)),
        (48..54, _) => Request::Write(Lba(inside), data(blocks)),
        (54..56, _) => Request::Write(Lba(z.start.0 + z.size_blocks - 1), data(2)),
        (56..57, _) => Request::Write(Lba(inside), vec![0; block / 2]),
        (57..66, _) => Request::Append(z.zone, data(blocks)),
        (66..76, _) => Request::Read(Lba(inside), data(blocks).len()),
        (76..82, _) => Request::Open(z.zone),
        (82..90, _) => Request::Close(z.zone),
        (90..94, _) if z.write_pointer > z.start => Request::Finish(z.zone),
        _ => Request::Reset(z.zone),
    })
}

fn requests(device: &mut impl ZonedDevice, model: &mut ModelDevice) -> Result<(u64, u64)> {
    let mut rng = rng::stream(SEED, "guest requests");
    let (mut asked, mut refused) = (0, 0);
    while asked < REQUESTS {
        let request = draw(model, &mut rng)?;
        if would_evict(model, &request)? {
            continue;
        }
        asked += 1;
        let (wanted, found) = (carry_out(model, &request), carry_out(device, &request));
        if wanted != found {
            let short = match &request {
                Request::Write(at, data) => format!("write of {} bytes at {at}", data.len()),
                Request::Append(z, data) => format!("append of {} bytes to {z}", data.len()),
                other => format!("{other:?}"),
            };
            let text = format!(
                "request {asked}, {short}: the model {:?}, the drive {:?}",
                wanted.0, found.0
            );
            return Err(text.into());
        }
        refused += u64::from(wanted.0.is_err());
        if asked % 100 == 0 {
            same_zones(device, model)?;
        }
    }
    device.flush()?;
    Ok((asked, refused))
}

/// Zones are opened by command until no more can be; then written until no more can be active.
fn limits(device: &mut impl ZonedDevice, model: &mut ModelDevice) -> Result<()> {
    let most = device.limits();
    let sequential: Vec<ZoneId> =
        report(model)?.iter().filter(|z| z.kind == ZoneKind::Sequential).map(|z| z.zone).collect();
    for z in &sequential {
        model.reset(*z)?;
        device.reset(*z)?;
    }
    let both = |model: &mut ModelDevice, device: &mut _, request: Request| {
        let (wanted, found) = (carry_out(model, &request), carry_out(device, &request));
        if wanted == found {
            Ok(wanted.0)
        } else {
            Err(format!("{request:?}: the model {:?}, the drive {:?}", wanted.0, found.0))
        }
    };
    let mut last = Ok(None);
    for z in &sequential {
        last = both(model, device, Request::Open(*z))?;
        if last.is_err() {
            break;
        }
    }
    let wanted = Err(format!("{:?}", Refusal::OpenLimit));
    if most.open_zones_max != 0 && last != wanted {
        return Err(format!("{} zones open: {last:?}", most.open_zones_max).into());
    }
    for z in &sequential {
        both(model, device, Request::Reset(*z))?.map_err(|r| format!("reset of {z}: {r}"))?;
    }
    if most.active_zones_max == 0 {
        return Ok(());
    }
    let block = vec![1; most.block_bytes as usize];
    let mut last = Ok(None);
    for z in &sequential {
        last = both(model, device, Request::Append(*z, block.clone()))?;
        if last.is_err() {
            break;
        }
        both(model, device, Request::Close(*z))?.map_err(|r| format!("close of {z}: {r}"))?;
    }
    if last != Err(format!("{:?}", Refusal::ActiveLimit)) {
        return Err(format!("{} zones active: {last:?}", most.active_zones_max).into());
    }
    Ok(())
}

fn same_zones(device: &impl ZonedDevice, model: &ModelDevice) -> Result<()> {
    for (found, wanted) in report(device)?.iter().zip(report(model)?) {
        // A conventional class kept apart may end within a zone.
        let wanted = match found.kind {
            ZoneKind::Conventional => {
                ZoneReport { capacity_blocks: found.capacity_blocks, ..wanted }
            }
            ZoneKind::Sequential => wanted,
        };
        if *found != wanted {
            return Err(
                format!("zone reports differ: the model {wanted:?}, the drive {found:?}").into()
            );
        }
    }
    Ok(())
}

fn contents(device: &impl ZonedDevice) -> Result<u32> {
    let block = device.limits().block_bytes as usize;
    let (mut sum, mut data) = (0, vec![0; 64 * block]);
    for z in report(device)? {
        let end = match z.kind {
            ZoneKind::Conventional => z.start.0 + z.capacity_blocks,
            ZoneKind::Sequential => z.write_pointer.0,
        };
        let mut at = z.start.0;
        while at < end {
            let n = 64.min(end - at);
            let part = &mut data[..n as usize * block];
            device.read(Lba(at), part)?;
            sum = crc_append(sum, part);
            at += n;
        }
    }
    Ok(sum)
}

/// The contents' checksum, when contents and zone reports are equal.
fn equal(device: &impl ZonedDevice, model: &ModelDevice) -> Result<u32> {
    same_zones(device, model)?;
    let (found, wanted) = (contents(device)?, contents(model)?);
    if found == wanted {
        return Ok(found);
    }
    Err(format!("contents differ: the model {wanted:08x}, the drive {found:08x}").into())
}

type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// A tree's life on one device: what it holds after each of three openings.
fn life<D: ZonedDevice>(mut open: impl FnMut() -> Result<D>) -> Result<Vec<Records>> {
    let shape = Shape::fitting(4096, 8, 8)?;
    drop(Index::create(open()?, Engine::Zb, shape, SEED)?);
    let mut rng = rng::stream(SEED, "guest tree");
    let mut lives = Vec::new();
    for _ in 0..3 {
        let mut index = Index::open(open()?)?;
        index.store_mut().set_durability(Durability::Batch);
        for i in 0..CHANGES / 3 {
            let key = rng.random_range(0..3000u64).to_be_bytes();
            match rng.random_range(0..10) {
                0..7 => index.put(&key, &i.to_be_bytes()).map(|_| ())?,
                _ => index.delete(&key).map(|_| ())?,
            }
            if i % 200 == 199 {
                index.sync()?;
            }
        }
        index.sync()?;
        index.check()?;
        let mut found = Records::new();
        index.scan(None, None, Direction::Forward, |k, v| {
            found.push((k.to_vec(), v.to_vec()));
            true
        })?;
        lives.push(found);
    }
    Ok(lives)
}

fn tree<D: ZonedDevice>(
    name: &str,
    open: &impl Fn() -> Result<D>,
    model: &mut ModelDevice,
) -> Result<usize> {
    let found = life(open)?;
    let wanted = on_model(model)?;
    if found != wanted {
        return Err(format!("{name}: records differ").into());
    }
    Ok(found.last().map_or(0, Vec::len))
}

/// [`life`] on the model, which lives on between openings.
fn on_model(model: &mut ModelDevice) -> Result<Vec<Records>> {
    let cell = std::cell::RefCell::new(model);
    life(|| Ok(Borrowed(&cell)))
}

/// A model that is opened again and again.
struct Borrowed<'a, 'm>(&'a std::cell::RefCell<&'m mut ModelDevice>);

impl ZonedDevice for Borrowed<'_, '_> {
    fn limits(&self) -> littoral_device::zoned::ZonedLimits {
        self.0.borrow().limits()
    }
    fn report(&self, first: ZoneId, count: u32) -> littoral_device::Result<Vec<ZoneReport>> {
        self.0.borrow().report(first, count)
    }
    fn read(&self, at: Lba, into: &mut [u8]) -> littoral_device::Result<()> {
        self.0.borrow().read(at, into)
    }
    fn write(
        &mut self,
        at: Lba,
        data: &[u8],
    ) -> littoral_device::Result<littoral_device::zoned::Ticket> {
        self.0.borrow_mut().write(at, data)
    }
    fn append(
        &mut self,
        zone: ZoneId,
        data: &[u8],
    ) -> littoral_device::Result<littoral_device::zoned::Ticket> {
        self.0.borrow_mut().append(zone, data)
    }
    fn wait(&mut self, ticket: littoral_device::zoned::Ticket) -> littoral_device::Result<Lba> {
        self.0.borrow_mut().wait(ticket)
    }
    fn flush(&mut self) -> littoral_device::Result<()> {
        self.0.borrow_mut().flush()
    }
    fn open(&mut self, zone: ZoneId) -> littoral_device::Result<()> {
        self.0.borrow_mut().open(zone)
    }
    fn close(&mut self, zone: ZoneId) -> littoral_device::Result<()> {
        self.0.borrow_mut().close(zone)
    }
    fn finish(&mut self, zone: ZoneId) -> littoral_device::Result<()> {
        self.0.borrow_mut().finish(zone)
    }
    fn reset(&mut self, zone: ZoneId) -> littoral_device::Result<()> {
        self.0.borrow_mut().reset(zone)
    }
}
