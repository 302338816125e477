//! The clocks of one running process, which a test may move: its machine was suspended, or somebody has set the date.
//!
//! A program learns the time from code that the kernel maps into every process, the vDSO (vdso(7)): the C library and rustix both call
//! the `clock_gettime` there. In this one process that function is written over, as a debugger does it, with one that asks the kernel
//! and adds the seconds of a table beside it. So the program is the one that users run, and nobody else's clocks move.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Pid;

use fencing_testbed::process::{Process, Signal};
use fencing_testbed::skip::or_skip;

/// The function that programs call, as the vDSO's table of symbols has it.
const FUNCTION: &[u8] = b"__vdso_clock_gettime\0";
/// What stands there instead: `clock_gettime(edi: clock, rsi: where to write the time)`. The table follows it.
#[rustfmt::skip]
const CODE: [u8; 40] = [
    0xb8, 0xe4, 0x00, 0x00, 0x00,             //      mov  eax, 228 (clock_gettime)
    0x0f, 0x05,                               //      syscall
    0x85, 0xc0,                               //      test eax, eax
    0x75, 0x15,                               //      jne  end
    0x83, 0xff, 0x0b,                         //      cmp  edi, 11
    0x77, 0x10,                               //      ja   end
    0x89, 0xf9,                               //      mov  ecx, edi
    0x48, 0x8d, 0x15, 0x0f, 0x00, 0x00, 0x00, //      lea  rdx, [rip + 15] (the table)
    0x48, 0x8b, 0x0c, 0xca,                   //      mov  rcx, [rdx + rcx*8]
    0x48, 0x01, 0x0e,                         //      add  [rsi], rcx
    0xc3,                                     // end: ret
    0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, //      (so that the table is aligned)
];
/// Clocks in the table, by the kernel's numbers: 0 to 11.
const CLOCKS: u64 = 12;
const ENTRY_BYTES: u64 = 8;

/// The date, with what is derived from it: `REALTIME`, `REALTIME_COARSE`, `TAI`.
const DATE: [u64; 3] = [0, 5, 11];
/// What stands still while the machine is suspended: `MONOTONIC`, `MONOTONIC_RAW`, `MONOTONIC_COARSE`.
const AWAKE: [u64; 3] = [1, 4, 6];

/// Can a test move the clocks of a process here? `false`: it is to end, and has been counted as skipped.
pub fn available_to_test(test: &str) -> Result<bool> {
    let available = match cfg!(target_arch = "x86_64") {
        true => Ok(()),
        false => Err("the code for it is x86-64's".to_owned()),
    };
    or_skip(available, "clocks that can be moved", test)
}

/// The clocks of a process. They can be moved only while it stands still (SIGSTOP).
#[derive(Debug)]
pub struct Clocks {
    memory: File,
    table: u64,
}

impl Clocks {
    /// Takes the clocks of a process, which it stops for it and lets go on.
    pub fn of(process: &Process) -> Result<Self> {
        for _ in 0..100 {
            process.pause()?;
            let taken = Self::take(process.pid());
            process.signal(Signal::CONT)?;
            if let Some(clocks) = taken? {
                return Ok(clocks);
            }
        }
        bail!("the process reads its clocks whenever it is looked at")
    }

    /// `None`: it stands still while it reads one, and has to go on first.
    fn take(pid: Pid) -> Result<Option<Self>> {
        let directory = format!("/proc/{}", pid.as_raw_nonzero());
        let place = vdso(&directory)?;
        if is_inside(&directory, &place)? {
            return Ok(None);
        }
        let memory = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("{directory}/mem"))?;
        let mut image = vec![0; usize::try_from(place.end - place.start)?];
        memory.read_exact_at(&mut image, place.start)?;
        let (function, length) =
            function(&image).context("the vDSO has no clock_gettime that we know")?;
        let code = CODE.len() as u64;
        ensure!(
            code + CLOCKS * ENTRY_BYTES <= length,
            "the vDSO's clock_gettime is too short: {length} bytes"
        );
        let this = Self {
            memory,
            table: place.start + function + code,
        };
        let zeros = [0; (CLOCKS * ENTRY_BYTES) as usize];
        this.memory.write_all_at(&zeros, this.table)?;
        this.memory.write_all_at(&CODE, this.table - code)?;
        Ok(Some(this))
    }

    /// Sets the date of the process ahead by so many seconds, or back.
    pub fn move_date(&self, seconds: i64) -> Result<()> {
        self.add(&DATE, seconds)
    }

    /// The process has stood still for so long, and is to take it for a suspend of its machine: whoever asks for the time since boot or the
    /// date finds that it is over, and on the monotonic clock it never was (but for a part of a second, so that this clock does not go back).
    pub fn slept(&self, so_long: Duration) -> Result<()> {
        self.add(&AWAKE, -i64::try_from(so_long.as_secs())?)
    }

    fn add(&self, clocks: &[u64], seconds: i64) -> Result<()> {
        for clock in clocks {
            let (at, mut entry) = (self.table + clock * ENTRY_BYTES, [0; 8]);
            self.memory.read_exact_at(&mut entry, at)?;
            let sum = i64::from_le_bytes(entry) + seconds;
            self.memory.write_all_at(&sum.to_le_bytes(), at)?;
        }
        Ok(())
    }
}

/// Where the vDSO is in the process.
fn vdso(directory: &str) -> Result<Range<u64>> {
    let maps = fs::read_to_string(format!("{directory}/maps"))?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"));
    let place = line.and_then(|line| {
        let (start, rest) = line.split_once('-')?;
        let (end, _) = rest.split_once(' ')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(number(start)?..number(end)?)
    });
    place.context("the process has no vDSO")
}

/// Is a thread in that code? Where it stands is the last that `syscall` says (proc(5)).
fn is_inside(directory: &str, code: &Range<u64>) -> Result<bool> {
    for task in fs::read_dir(format!("{directory}/task"))? {
        let said = fs::read_to_string(task?.path().join("syscall"))?;
        let at = said.trim().rsplit(" 0x").next().unwrap_or_default();
        let at = u64::from_str_radix(at, 16).with_context(|| format!("it stands at {said}"))?;
        if code.contains(&at) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where [`FUNCTION`] begins in an ELF image of 64 bits, and its length (elf(5)).
fn function(image: &[u8]) -> Option<(u64, u64)> {
    const SECTION_BYTES: u64 = 64;
    const SYMBOL_BYTES: usize = 24;
    const DYNSYM: u64 = 11;
    let (sections, count) = (number(image, 0x28, 8)?, number(image, 0x3c, 2)?);
    let section = |index: u64| sections + index * SECTION_BYTES;
    let symbols = (0..count)
        .map(section)
        .find(|section| number(image, section + 4, 4) == Some(DYNSYM))?;
    let (begin, bytes) = (
        number(image, symbols + 0x18, 8)?,
        number(image, symbols + 0x20, 8)?,
    );
    let names = section(number(image, symbols + 0x28, 4)?);
    let names = number(image, names + 0x18, 8)?;
    (begin..begin + bytes)
        .step_by(SYMBOL_BYTES)
        .find_map(|symbol| {
            let name = usize::try_from(names + number(image, symbol, 4)?).ok()?;
            let is_it = image.get(name..)?.starts_with(FUNCTION);
            is_it.then_some(symbol)
        })
        .and_then(|symbol| {
            Some((
                number(image, symbol + 8, 8)?,
                number(image, symbol + 16, 8)?,
            ))
        })
}

/// A number of so many bytes, lowest first.
fn number(image: &[u8], at: u64, bytes: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let field = image.get(at..at.checked_add(bytes)?)?;
    let sum = |sum, byte: &u8| (sum << 8) | u64::from(*byte);
    Some(field.iter().rev().fold(0, sum))
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime};

    use rustix::time::{ClockId, clock_gettime};

    use super::*;
    use fencing_testbed::process::{Guard, Spec};

    /// The process of the test below: it tells its date, how long it has been awake and the time since boot, in seconds.
    #[test]
    #[ignore = "it is started by another test"]
    fn a_process_that_tells_the_time() {
        let begun = Instant::now();
        for _ in 0..1500 {
            let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let date = date.expect("a date").as_secs_f64();
            let awake = begun.elapsed().as_secs_f64();
            let boot = clock_gettime(ClockId::Boottime);
            let boot = boot.tv_sec as f64 + boot.tv_nsec as f64 / 1e9;
            println!("{date} {awake} {boot}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it tells from now on.
    fn told(process: &Process) -> Result<[f64; 3]> {
        let times = || -> Result<Vec<[f64; 3]>> {
            let text = fs::read_to_string(process.log())?;
            let numbers = |line: &str| line.split(' ').map(|word| word.parse().ok()).collect();
            // The test harness has lines of its own, and the last one may not be complete.
            let whole = text
                .split_inclusive('\n')
                .filter_map(|line| line.strip_suffix('\n'));
            let lines = whole.filter_map(numbers);
            Ok(lines
                .filter_map(|line: Vec<_>| line.try_into().ok())
                .collect())
        };
        let before = times()?.len();
        let begun = Instant::now();
        loop {
            // The first of them may have been on its way.
            if let Some(told) = times()?.get(before + 1) {
                return Ok(*told);
            }
            process.check()?;
            ensure!(begun.elapsed() < Duration::from_secs(20), "it says nothing");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn the_clocks_of_one_process_move_and_those_of_others_do_not() -> Result<()> {
        if !available_to_test("the_clocks_of_one_process_move_and_those_of_others_do_not")? {
            return Ok(());
        }
        let directory = tempfile::tempdir()?;
        let guard = Guard::start()?;
        let log = directory.path().join("log");
        let process = Spec::new("teller", std::env::current_exe()?, &log)
            .args(["--exact", "clocks::tests::a_process_that_tells_the_time"])
            .args(["--ignored", "--nocapture"])
            .spawn(&guard)?;
        let [_, awake, boot] = told(&process)?;

        let clocks = Clocks::of(&process)?;
        process.pause()?;
        let begun = Instant::now();
        std::thread::sleep(Duration::from_millis(2500));
        clocks.slept(begun.elapsed())?;
        clocks.move_date(3600)?;
        process.signal(Signal::CONT)?;

        let [date, awake_later, boot_later] = told(&process)?;
        let asleep = (boot_later - boot) - (awake_later - awake);
        ensure!((1.0..3.0).contains(&asleep), "it has slept for {asleep} s");
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let ahead = date - now.as_secs_f64();
        ensure!((ahead - 3600.0).abs() < 10.0, "it is {ahead} s ahead");
        Ok(())
    }
}
