//! Integer sort by counting, after the NAS kernel: each rank counts its keys, the counts are added
//! up under a lock, and every rank ranks its keys. STEPS is the range of keys.

use littoral_dsm::Result;
use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job, block_of};

fn key(i: usize, range: usize) -> usize {
    let mut x = i as u64 ^ 0x9e37_79b9_7f4a_7c15;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31) as usize % range
}

pub(crate) fn run(job: &mut Job, count: usize, range: usize) -> Result<Vec<f64>> {
    let (me, ranks) = (job.rank(), job.ranks());
    let totals = job.alloc_slice::<u32>(range, Homes::At(0))?;
    // For each rank and key: how many of that key the ranks before it have.
    let before = job.alloc_slice::<u32>(range * usize::from(ranks), Homes::Blocks)?;
    let sorted = job.alloc_slice::<u32>(count, Homes::Blocks)?;
    let mine: Vec<usize> = block_of(count, me, ranks).map(|i| key(i, range)).collect();
    let mut own = vec![0u32; range];
    mine.iter().for_each(|k| own[*k] += 1);
    job.work(2 * mine.len() as u64);

    let section = job.enter(LockId(1))?;
    section.write(totals)?.iter_mut().zip(&own).for_each(|(t, o)| *t += o);
    section.leave()?;
    let phase = job.phase()?;
    phase.write(before.block(me, ranks))?.copy_from_slice(&own);
    phase.end()?;

    let phase = job.phase()?;
    let (totals, counts) = (phase.read(totals)?, phase.read(before)?);
    let mut next = vec![0u32; range];
    let mut start = 0;
    for k in 0..range {
        let earlier: u32 = (0..usize::from(me)).map(|r| counts[r * range + k]).sum();
        next[k] = start + earlier;
        start += totals[k];
    }
    drop((totals, counts));
    // Places of one rank's keys lie between those of others: element by element.
    for k in mine {
        let at = next[k] as usize;
        phase.write(sorted.part(at..at + 1))?[0] = k as u32;
        next[k] += 1;
    }
    phase.work((range * usize::from(ranks) + 4 * block_of(count, me, ranks).len()) as u64);
    phase.end()?;
    let phase = job.phase()?;
    let answer: Vec<f64> = phase.read(sorted)?.iter().map(|k| f64::from(*k)).collect();
    phase.end()?;
    assert!(answer.is_sorted(), "keys ascend");
    Ok(answer)
}
