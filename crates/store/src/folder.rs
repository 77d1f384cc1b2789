//! The data folder: made private, checked, and held by one gate at a time.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::error::StoreError;

const LOCK_FILE: &str = "lock";

/// Only its owner may look in, read and write.
const PRIVATE_DIR: u32 = 0o700;
/// Only its owner may read and write.
pub(crate) const PRIVATE_FILE: u32 = 0o600;
/// Bits that let others change what is in a folder.
const OTHERS_WRITE: u32 = 0o022;
/// Bits that let others do anything with it.
const OTHERS: u32 = 0o077;

/// Makes a folder that is ours alone. One that exists is left as it is; what is odd about it is said.
pub(crate) fn make_private(dir: &Path) -> Result<Option<String>, StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_DIR)
        .create(dir)
        .map_err(StoreError::io("creating the folder", dir))?;
    let about = fs::metadata(dir).map_err(StoreError::io("looking at the folder", dir))?;
    if about.mode() & OTHERS != 0 {
        let mode = about.mode() & 0o777;
        let done = if mode & OTHERS_WRITE == 0 { "looked into" } else { "written" };
        let dir = dir.display();
        return Ok(Some(format!(
            "the folder `{dir}` can be {done} by others (mode {mode:o}): run `chmod 700 {dir}`"
        )));
    }
    let us = rustix::process::geteuid().as_raw();
    if about.uid() != us {
        return Ok(Some(format!(
            "the folder `{}` belongs to user {}, and the gate runs as user {us}",
            dir.display(),
            about.uid()
        )));
    }
    Ok(None)
}

/// Takes a file away from everybody else, if it is there.
pub(crate) fn make_file_private(file: &Path) -> Result<(), StoreError> {
    match fs::set_permissions(file, fs::Permissions::from_mode(PRIVATE_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(StoreError::io("setting the permissions of", file)),
    }
}

/// Makes an empty file that is ours alone; one that exists is taken away from everybody else.
pub(crate) fn ensure_private_file(file: &Path) -> Result<(), StoreError> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE_FILE)
        .open(file)
        .map_err(StoreError::io("opening", file))?;
    make_file_private(file)
}

/// Puts the names in a folder on disk: a file that was made is there after a power cut only then.
pub(crate) fn sync_dir(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Proof that no other gate has the folder. Ends with the process, however that ends.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

impl FolderLock {
    pub(crate) fn take(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(LOCK_FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PRIVATE_FILE)
            .open(&path)
            .map_err(StoreError::io("opening the lock file", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Only for the message: who holds it is good to know and nothing depends on it.
                let _ = (&mut file).take(16).read_to_string(&mut pid);
                let known = !pid.is_empty() && pid.trim().bytes().all(|b| b.is_ascii_digit());
                let holder =
                    if known { format!(" (process {})", pid.trim()) } else { String::new() };
                return Err(StoreError::InUse { dir: dir.to_owned(), holder });
            }
            Err(TryLockError::Error(source)) => {
                return Err(StoreError::io("locking", &path)(source));
            }
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()));
        written.map_err(StoreError::io("writing the lock file", &path))?;
        Ok(Self { _file: file })
    }
}
