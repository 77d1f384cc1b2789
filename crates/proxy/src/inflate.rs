//! Compressed bodies, read as they pass and under a cap. The compressed bytes go on unchanged; what is
//! inflated here is only looked at.
//!
//! Never here: what a body says.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use crate::limits::{INFLATE_BUFFER_BYTES, ZSTD_WINDOW_LOG_MAX};

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Plain,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
    /// Unknown, or several on top of each other.
    Unreadable,
}

/// Inflates a body in pieces.
pub(crate) struct Inflater(Kind);

enum Kind {
    Gzip(Box<MultiGzDecoder<Sink>>),
    Deflate(Box<ZlibDecoder<Sink>>),
    Brotli(Box<DecompressorWriter<Sink>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Sink>>),
}

/// The body is not what its header says, or is larger than the cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotInflated;

/// Where inflated bytes are put until they were looked at.
#[derive(Debug)]
struct Sink {
    bytes: Vec<u8>,
    /// How many more may come.
    room: usize,
}

impl Coding {
    /// What a body's headers say.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut lines = headers.get_all(CONTENT_ENCODING).iter();
        let (only, more) = (lines.next(), lines.next());
        match (only.map(|value| value.as_bytes().trim_ascii().to_ascii_lowercase()), more) {
            (None, _) => Self::Plain,
            (Some(_), Some(_)) => Self::Unreadable,
            (Some(name), None) => match name.as_slice() {
                b"identity" | b"" => Self::Plain,
                b"gzip" | b"x-gzip" => Self::Gzip,
                b"deflate" => Self::Deflate,
                b"br" => Self::Brotli,
                b"zstd" => Self::Zstd,
                _ => Self::Unreadable,
            },
        }
    }
}

impl Inflater {
    /// For a body of this coding; none where there is nothing to inflate or nobody who can. At most
    /// `bytes_max` come out.
    pub(crate) fn new(coding: Coding, bytes_max: usize) -> Option<Self> {
        let sink = Sink { bytes: Vec::new(), room: bytes_max };
        let kind = match coding {
            Coding::Plain | Coding::Unreadable => return None,
            Coding::Gzip => Kind::Gzip(Box::new(MultiGzDecoder::new(sink))),
            Coding::Deflate => Kind::Deflate(Box::new(ZlibDecoder::new(sink))),
            Coding::Brotli => {
                Kind::Brotli(Box::new(DecompressorWriter::new(sink, INFLATE_BUFFER_BYTES)))
            }
            Coding::Zstd => {
                let mut decoder = zstd::stream::write::Decoder::new(sink).ok()?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).ok()?;
                Kind::Zstd(Box::new(decoder))
            }
        };
        Some(Self(kind))
    }

    /// Takes compressed bytes and gives `look` what comes out of them.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        look: impl FnOnce(&[u8]),
    ) -> Result<(), NotInflated> {
        let written = match &mut self.0 {
            Kind::Gzip(decoder) => decoder.write_all(bytes).and_then(|()| decoder.flush()),
            Kind::Deflate(decoder) => decoder.write_all(bytes).and_then(|()| decoder.flush()),
            Kind::Brotli(decoder) => decoder.write_all(bytes).and_then(|()| decoder.flush()),
            Kind::Zstd(decoder) => decoder.write_all(bytes).and_then(|()| decoder.flush()),
        };
        let sink = match &mut self.0 {
            Kind::Gzip(decoder) => decoder.get_mut(),
            Kind::Deflate(decoder) => decoder.get_mut(),
            Kind::Brotli(decoder) => decoder.get_mut(),
            Kind::Zstd(decoder) => decoder.get_mut(),
        };
        look(&sink.bytes);
        sink.bytes.clear();
        written.map_err(|_| NotInflated)
    }

    /// A whole body at once, as it is where it is not compressed.
    pub(crate) fn whole(
        coding: Coding,
        bytes: &[u8],
        bytes_max: usize,
    ) -> Result<Cow<'_, [u8]>, NotInflated> {
        if coding == Coding::Plain {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut inflater = Self::new(coding, bytes_max).ok_or(NotInflated)?;
        let mut whole = Vec::new();
        inflater.feed(bytes, |piece| whole.extend_from_slice(piece))?;
        inflater.end(|piece| whole.extend_from_slice(piece))?;
        Ok(Cow::Owned(whole))
    }

    /// The body is over: a stream that ends in its middle is an error.
    fn end(self, look: impl FnOnce(&[u8])) -> Result<(), NotInflated> {
        let finished = match self.0 {
            Kind::Gzip(mut decoder) => {
                decoder.try_finish().map(|()| std::mem::take(&mut decoder.get_mut().bytes))
            }
            Kind::Deflate(mut decoder) => {
                decoder.try_finish().map(|()| std::mem::take(&mut decoder.get_mut().bytes))
            }
            Kind::Brotli(mut decoder) => {
                decoder.close().map(|()| std::mem::take(&mut decoder.get_mut().bytes))
            }
            Kind::Zstd(mut decoder) => {
                decoder.flush().map(|()| std::mem::take(&mut decoder.get_mut().bytes))
            }
        };
        finished.map(|bytes| look(&bytes)).map_err(|_| NotInflated)
    }
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inflater(…)")
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.room = self
            .room
            .checked_sub(bytes.len())
            .ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "beyond the cap"))?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use http::HeaderValue;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_body_comes_out_as_it_went_in() {
        let text = "abc".repeat(5_000);
        let plain = text.as_bytes();
        // The one brotli stream is made by hand: a meta-block that is not compressed.
        let brotli = [b"\x8b\x01\x80".as_slice(), b"abcd", b"\x03"].concat();
        for (coding, packed, expected) in [
            (Coding::Gzip, gzip(plain), plain),
            (Coding::Gzip, [gzip(b"ab"), gzip(b"cd")].concat(), b"abcd"),
            (Coding::Deflate, zlib(plain), plain),
            (Coding::Zstd, zstd::encode_all(plain, 3).unwrap(), plain),
            (Coding::Brotli, brotli, b"abcd"),
        ] {
            assert_eq!(Inflater::whole(coding, &packed, 20_000).unwrap(), expected, "{coding:?}");
            let mut inflater = Inflater::new(coding, 20_000).unwrap();
            let mut pieces = Vec::new();
            for piece in packed.chunks(3) {
                inflater.feed(piece, |bytes| pieces.extend_from_slice(bytes)).unwrap();
            }
            assert_eq!(pieces, expected, "{coding:?} in pieces");
        }
    }

    #[test]
    fn a_bomb_ends_at_the_cap() {
        let zeros = vec![0; 10_000_000];
        for (coding, packed) in [
            (Coding::Gzip, gzip(&zeros)),
            (Coding::Deflate, zlib(&zeros)),
            (Coding::Zstd, zstd::encode_all(zeros.as_slice(), 3).unwrap()),
        ] {
            assert!(packed.len() < 20_000, "{coding:?}");
            assert_eq!(Inflater::whole(coding, &packed, 100_000), Err(NotInflated), "{coding:?}");
        }
    }

    #[test]
    fn garbage_and_halves_are_no_bodies() {
        let half = gzip(b"some text that is cut");
        let half = half.get(..half.len() - 9).unwrap();
        assert_eq!(Inflater::whole(Coding::Gzip, half, 100), Err(NotInflated));
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Zstd, Coding::Brotli] {
            assert_eq!(Inflater::whole(coding, b"nonsense", 100), Err(NotInflated), "{coding:?}");
        }
        assert_eq!(Inflater::whole(Coding::Unreadable, b"x", 100), Err(NotInflated));
    }

    #[test]
    fn headers_name_one_coding_or_none() {
        for (lines, expected) in [
            (vec![], Coding::Plain),
            (vec!["identity"], Coding::Plain),
            (vec!["GZip"], Coding::Gzip),
            (vec!["br"], Coding::Brotli),
            (vec!["gzip, br"], Coding::Unreadable),
            (vec!["gzip", "gzip"], Coding::Unreadable),
            (vec!["compress"], Coding::Unreadable),
        ] {
            let mut headers = HeaderMap::new();
            for line in &lines {
                headers.append(CONTENT_ENCODING, HeaderValue::from_static(line));
            }
            assert_eq!(Coding::of(&headers), expected, "{lines:?}");
        }
    }
}
