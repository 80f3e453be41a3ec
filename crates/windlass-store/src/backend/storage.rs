//! The store file: a page that says what the file is, and behind it the pages of redb.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

/// The format this version writes, and the newest it reads.
pub(crate) const FORMAT: u32 = 1;

/// One page of redb, so that the pages behind it stay aligned with those of the disk.
pub(crate) const HEADER_LEN: usize = 4096;

const MAGIC: &str = "windlass-store format ";

/// The first page of a store file: a line of text that `head -1` shows, and zeros.
pub(crate) fn header() -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    let line = format!("{MAGIC}{FORMAT}\n");
    header[..line.len()].copy_from_slice(line.as_bytes());
    header
}

/// What the first page of a file says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Ours,
    Newer(u32),
    Damaged,
}

impl Header {
    pub(crate) fn read(page: &[u8]) -> Self {
        if page == header() {
            return Self::Ours;
        }
        let number = page.strip_prefix(MAGIC.as_bytes()).and_then(|rest| {
            let line = rest.split(|byte| *byte == b'\n').next()?;
            std::str::from_utf8(line).ok()?.parse().ok()
        });
        match number {
            Some(format) if format > FORMAT => Self::Newer(format),
            _ => Self::Damaged,
        }
    }
}

/// The part of a file behind its header.
#[derive(Debug)]
pub(crate) struct Body<S>(pub(crate) S);

impl<S: StorageBackend> StorageBackend for Body<S> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len()?.saturating_sub(HEADER_LEN as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset + HEADER_LEN as u64, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len + HEADER_LEN as u64)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset + HEADER_LEN as u64, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

/// Storage that remembers whether a sync of it has failed.
///
/// The system may then have dropped what was written, and report the next sync as done: what is on the disk is not known,
/// and what is read of the file need not be what is there.
#[derive(Debug)]
pub(crate) struct Syncing<S> {
    pub(crate) inner: S,
    pub(crate) failed: Arc<AtomicBool>,
}

impl<S: StorageBackend> StorageBackend for Syncing<S> {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let synced = self.inner.sync_data();
        if synced.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        synced
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }
}

/// Storage that can be written to without being changed: what is written stays in memory.
///
/// Opening a redb file writes to it, and repairs it where it must. A damaged file is to be refused as
/// it is, so it is first opened through this.
#[derive(Debug)]
pub(crate) struct Overlay<S> {
    below: S,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    len: u64,
    /// Up to where what is below still shows through. Shrinks with the storage and never grows again.
    visible: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
}

const PAGE: usize = 4096;

impl<S: StorageBackend> Overlay<S> {
    pub(crate) fn new(below: S) -> io::Result<Self> {
        let len = below.len()?;
        Ok(Self { below, written: Mutex::new(Written { len, visible: len, pages: BTreeMap::new() }) })
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page as it is without what was written.
    fn below(&self, page: u64, visible: u64) -> io::Result<Box<[u8; PAGE]>> {
        let mut bytes = Box::new([0; PAGE]);
        let start = page * PAGE as u64;
        let shown = visible.saturating_sub(start).min(PAGE as u64) as usize;
        if shown > 0 {
            self.below.read(start, &mut bytes[..shown])?;
        }
        Ok(bytes)
    }
}

/// The pages that `len` bytes at `offset` touch: for each its number, where in it they start, and which
/// of the bytes they are.
fn pages(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE as u64) as usize;
        let take = (PAGE - within).min(len - done);
        let piece = (at / PAGE as u64, within, done..done + take);
        done += take;
        (take > 0).then_some(piece)
    })
}

impl<S: StorageBackend> StorageBackend for Overlay<S> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > written.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (page, within, piece) in pages(offset, out.len()) {
            let out = &mut out[piece];
            let from = match written.pages.get(&page) {
                Some(bytes) => &bytes[within..within + out.len()],
                None => &self.below(page, written.visible)?[within..within + out.len()],
            };
            out.copy_from_slice(from);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written();
        if len < written.len {
            written.visible = written.visible.min(len);
            let cut = len / PAGE as u64;
            let _gone = written.pages.split_off(&(cut + 1));
            if let Some(page) = written.pages.get_mut(&cut) {
                page[(len % PAGE as u64) as usize..].fill(0);
            }
        }
        written.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written();
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > written.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (page, within, piece) in pages(offset, data.len()) {
            if !written.pages.contains_key(&page) {
                let bytes = self.below(page, written.visible)?;
                written.pages.insert(page, bytes);
            }
            if let Some(bytes) = written.pages.get_mut(&page) {
                bytes[within..within + piece.len()].copy_from_slice(&data[piece]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redb::backends::InMemoryBackend;

    use super::*;

    #[test]
    fn a_header_is_ours_newer_or_damaged() {
        let page = |text: &str| {
            let mut page = vec![0; HEADER_LEN];
            page[..text.len()].copy_from_slice(text.as_bytes());
            page
        };
        let mut flipped = header().to_vec();
        flipped[HEADER_LEN - 1] = 1;
        let cases = [
            (header().to_vec(), Header::Ours),
            (page("windlass-store format 2\n"), Header::Newer(2)),
            (page("windlass-store format 17 and more\n"), Header::Damaged),
            (page("windlass-store format 0\n"), Header::Damaged),
            (page("windlass-store format 1\nx"), Header::Damaged),
            (page("redb"), Header::Damaged),
            (flipped, Header::Damaged),
            (vec![], Header::Damaged),
        ];
        for (page, expected) in cases {
            assert_eq!(Header::read(&page), expected, "{:?}", String::from_utf8_lossy(&page));
        }
    }

    proptest! {
        #[test]
        fn an_overlay_reads_like_storage_that_was_written_and_leaves_what_is_below(
            len in 0_usize..20_000,
            steps in proptest::collection::vec((0_u64..20_000, 0_usize..9_000, any::<u8>(), any::<bool>()), 0..12),
        ) {
            // No two pages alike.
            let initial: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let below = InMemoryBackend::new();
            below.set_len(initial.len() as u64).unwrap();
            below.write(0, &initial).unwrap();
            let overlay = Overlay::new(Body(below)).unwrap();
            let mut model = initial.get(HEADER_LEN..).unwrap_or_default().to_vec();
            for (offset, len, byte, resize) in steps {
                if resize {
                    overlay.set_len(offset).unwrap();
                    model.resize(offset as usize, 0);
                } else {
                    let data = vec![byte; len];
                    let fits = offset as usize + len <= model.len();
                    prop_assert_eq!(overlay.write(offset, &data).is_ok(), fits);
                    if fits {
                        model[offset as usize..offset as usize + len].copy_from_slice(&data);
                    }
                }
                let mut read = vec![0; model.len()];
                overlay.read(0, &mut read).unwrap();
                prop_assert_eq!(&read, &model);
                prop_assert!(overlay.read(1, &mut read).is_err() || model.is_empty());
            }
            let mut untouched = vec![0; initial.len()];
            overlay.below.0.read(0, &mut untouched).unwrap();
            prop_assert_eq!(untouched, initial);
        }
    }
}
