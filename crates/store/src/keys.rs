//! The key that signs checkpoints, and the mark beside it. Outside the database, so that whoever can
//! only change the database cannot sign.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use agentguard_core::Secret;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use crate::chain::{Hash, hex, unhex};
use crate::error::StoreError;
use crate::folder::{PRIVATE_FILE, make_private, sync_dir};

pub(crate) const KEYS_DIR: &str = "keys";
const KEY_FILE: &str = "record.key";
const PUBLIC_FILE: &str = "record.pub";
const MARK_FILE: &str = "record.mark";

/// Sets signatures over checkpoints apart from any other use of the key.
const CONTEXT: &[u8] = b"agentguard checkpoint 1\n";

/// Signs checkpoints.
pub(crate) struct RecordKey {
    key: SigningKey,
}

impl std::fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecordKey(…)")
    }
}

impl RecordKey {
    /// The key of a data folder. Made if there is none, unless the record was signed already: a new
    /// key in the place of a lost one would hide that everything before is unproven.
    pub(crate) fn open(data_dir: &Path, signed_before: bool) -> Result<Self, StoreError> {
        let dir = data_dir.join(KEYS_DIR);
        let file = dir.join(KEY_FILE);
        match fs::read_to_string(&file) {
            Ok(text) => {
                let seed = Secret::new(parse_seed(&text).ok_or_else(|| StoreError::Key {
                    file: file.clone(),
                    why: "does not hold 64 hexadecimal digits: put the right file back".to_owned(),
                })?);
                Ok(Self { key: SigningKey::from_bytes(seed.expose()) })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && signed_before => {
                Err(StoreError::Key {
                    file,
                    why: "is missing, and the record was signed with it: put it back, or move the \
                          data folder away to begin a new record"
                        .to_owned(),
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make(&dir, &file),
            Err(source) => Err(StoreError::io("reading the record's key", &file)(source)),
        }
    }

    /// Says so if others can read the key: then they can sign, too.
    pub(crate) fn exposed(data_dir: &Path) -> Option<String> {
        readable_by_others(&data_dir.join(KEYS_DIR).join(KEY_FILE), "the record's key")
    }

    pub(crate) fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        self.key.sign(&message(bytes)).to_bytes()
    }

    fn make(dir: &Path, file: &Path) -> Result<Self, StoreError> {
        make_private(dir)?;
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random).map_err(StoreError::NoRandomness)?;
        let seed = Secret::new(random);
        let key = SigningKey::from_bytes(seed.expose());
        let text = Secret::new(format!("{}\n", hex(seed.expose())));
        write_new(file, text.expose())
            .and_then(|()| {
                let public = hex(key.verifying_key().as_bytes());
                write_new(&dir.join(PUBLIC_FILE), &format!("{public}\n"))
            })
            .and_then(|()| sync_dir(dir))
            .map_err(StoreError::io("writing the record's key", file))?;
        Ok(Self { key })
    }
}

/// Checks signatures.
#[derive(Debug)]
pub(crate) struct PublicKey {
    key: VerifyingKey,
}

impl PublicKey {
    /// Derived from the key itself where that can be read, else out of the file beside it. `None` if
    /// neither is there.
    pub(crate) fn read(data_dir: &Path) -> Result<Option<Self>, StoreError> {
        let dir = data_dir.join(KEYS_DIR);
        let secret = fs::read_to_string(dir.join(KEY_FILE)).ok().and_then(|t| parse_seed(&t));
        if let Some(seed) = secret {
            let seed = Secret::new(seed);
            let key = SigningKey::from_bytes(seed.expose()).verifying_key();
            return Ok(Some(Self { key }));
        }
        let file = dir.join(PUBLIC_FILE);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::io("reading the public key", &file)(source)),
        };
        let key = unhex::<32>(text.trim()).and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
        match key {
            Some(key) => Ok(Some(Self { key })),
            None => Err(StoreError::Key { file, why: "is no Ed25519 public key".to_owned() }),
        }
    }

    pub(crate) fn signed(&self, bytes: &[u8], signature: &[u8; 64]) -> bool {
        self.key.verify_strict(&message(bytes), &Signature::from_bytes(signature)).is_ok()
    }
}

/// How far the checkpoints had come. Kept with the key, so that putting back older copies of the
/// database and of the checkpoints together is still seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The number of the last checkpoint.
    pub(crate) number: u64,
    /// The hash of its line.
    pub(crate) line: Hash,
}

/// What the mark's file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    /// There is none: nothing was signed yet.
    Nothing,
    /// It cannot be read.
    Damaged,
    At(Mark),
}

impl Marked {
    pub(crate) fn read(data_dir: &Path) -> Self {
        // A running gate writes it in place: what is damaged the first time may have been caught
        // half written.
        match Self::read_once(data_dir) {
            Self::Damaged => Self::read_once(data_dir),
            mark @ (Self::Nothing | Self::At(_)) => mark,
        }
    }

    fn read_once(data_dir: &Path) -> Self {
        match fs::read_to_string(mark_path(data_dir)) {
            Ok(text) => parse_mark(&text).map_or(Self::Damaged, Self::At),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Nothing,
            Err(_) => Self::Damaged,
        }
    }
}

/// Writes the mark, in place and always at the same length. Not synced after the first: after a power cut it may be
/// behind, which is no fault; it is never ahead, since the line it speaks of is on disk first.
pub(crate) fn write_mark(data_dir: &Path, mark: Mark) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE_FILE)
        .open(mark_path(data_dir))?;
    file.write_all_at(format!("{:020} {}\n", mark.number, hex(&mark.line)).as_bytes(), 0)?;
    if mark.number == 1 {
        // That it is there at all must outlast a power cut: a mark that is gone is a finding.
        file.sync_all()?;
        sync_dir(&data_dir.join(KEYS_DIR))?;
    }
    Ok(())
}

pub(crate) fn mark_path(data_dir: &Path) -> PathBuf {
    data_dir.join(KEYS_DIR).join(MARK_FILE)
}

fn parse_mark(text: &str) -> Option<Mark> {
    let (number, line) = text.trim_end().split_once(' ')?;
    Some(Mark { number: number.parse().ok()?, line: unhex(line)? })
}

fn parse_seed(text: &str) -> Option<[u8; 32]> {
    unhex(text.trim())
}

fn message(bytes: &[u8]) -> Vec<u8> {
    [CONTEXT, bytes].concat()
}

/// Says so if others can read a key file.
pub(crate) fn readable_by_others(file: &Path, what: &str) -> Option<String> {
    let mode = fs::metadata(file).ok()?.mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        format!("others can read {what} `{}` (mode {mode:o}): set it to 600", file.display())
    })
}

pub(crate) fn write_new(file: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(file)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
