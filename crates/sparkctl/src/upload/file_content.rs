//! Computes the digests of files, and reads their content to send it, provided that it has not changed since.

use anyhow::{anyhow, bail};
use md5::Md5;
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
};
use submission::digest::hex;
use tokio::task;

/// How many bytes are read at once.
const BLOCK: usize = 1 << 20;

/// The size and digest of a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub size: u64,
    /// The SHA-256 in hexadecimal digits.
    pub sha256: String,
}

/// Returns the size and digest of the file at `path`.
///
/// # Errors
///
/// When the file does not exist, or cannot be read as a file.
pub(super) async fn content(path: PathBuf) -> anyhow::Result<Content> {
    let (size, sha256) = digested::<Sha256>(path).await?;
    Ok(Content { size, sha256 })
}

/// Returns the MD5 of a file in hexadecimal digits, which most S3-compatible stores use as the ETag of an object that
/// was uploaded in one part.
///
/// # Errors
///
/// As [`content`].
pub(super) async fn md5(path: PathBuf) -> anyhow::Result<String> {
    Ok(digested::<Md5>(path).await?.1)
}

async fn digested<D: Digest + Send + 'static>(path: PathBuf) -> anyhow::Result<(u64, String)> {
    let work = move || {
        let mut file = open(&path)?;
        let (mut digest, mut size, mut block) = (D::new(), 0, vec![0; BLOCK]);
        loop {
            match file.read(&mut block) {
                Ok(0) => return Ok((size, hex(&digest.finalize()))),
                Ok(read) => {
                    digest.update(&block[..read]);
                    size += read as u64;
                }
                Err(error) => bail!("cannot be read: {error}"),
            }
        }
    };
    task::spawn_blocking(work).await?
}

fn open(path: &Path) -> anyhow::Result<File> {
    // Checked before opening: opening a pipe would block until a writer opens it.
    let metadata = fs::metadata(path).map_err(|error| unreadable(&error))?;
    if metadata.is_dir() {
        bail!("is a folder: name its files, or an archive of them in deps.archives");
    }
    if !metadata.is_file() {
        bail!("is not a regular file");
    }
    File::open(path).map_err(|error| unreadable(&error))
}

fn unreadable(error: &io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::NotFound => anyhow!("there is no such file"),
        _ => anyhow!("cannot be read: {error}"),
    }
}

/// A file that is read in parts, to be sent.
pub(super) struct Parts {
    file: File,
    read: Sha256,
    left: u64,
    expected: Content,
}

impl Parts {
    /// Opens the file at `path`, whose content has to be `expected`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub(super) fn of(path: &Path, expected: &Content) -> anyhow::Result<Self> {
        Ok(Self { file: open(path)?, read: Sha256::new(), left: expected.size, expected: expected.clone() })
    }

    /// Returns the next part, of at most `length` bytes, and the rest; the part is empty if nothing is left. The last
    /// part is returned only if the whole content is as expected, so that no object with other content can be created.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or its content has changed.
    pub(super) async fn next(mut self, length: u64) -> anyhow::Result<(Vec<u8>, Self)> {
        let work = move || {
            let length = length.min(self.left);
            let mut part = Vec::new();
            let read = (&mut self.file).take(length).read_to_end(&mut part);
            read.map_err(|error| anyhow!("cannot be read: {error}"))?;
            self.read.update(&part);
            self.left -= length;
            let is_last = self.left == 0;
            // A further byte means that the file has grown.
            let is_other = part.len() as u64 != length
                || is_last
                    && (self.file.read(&mut [0])? > 0
                        || hex(&self.read.clone().finalize()) != self.expected.sha256);
            if is_other {
                bail!("has changed while it was being uploaded: try again when it stays as it is");
            }
            Ok((part, self))
        };
        task::spawn_blocking(work).await?
    }

    pub(super) fn are_left(&self) -> bool {
        self.left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, process};

    #[tokio::test]
    async fn the_last_part_of_a_file_that_has_changed_is_not_returned() {
        let path = env::temp_dir().join(format!("sparkctl-content-{}", process::id()));
        for (then, parts) in
            [("abcdef", Some(2)), ("abcdeX", None), ("abcdefg", None), ("abc", None), ("", None)]
        {
            fs::write(&path, "abcdef").unwrap();
            let known = content(path.clone()).await.unwrap();
            fs::write(&path, then).unwrap();
            let mut rest = Parts::of(&path, &known).unwrap();
            let mut read = Ok(0);
            while rest.are_left() {
                match rest.next(4).await {
                    Ok((_, left)) => (rest, read) = (left, read.map(|parts| parts + 1)),
                    Err(error) => {
                        read = Err(error.to_string());
                        break;
                    }
                }
            }
            match parts {
                Some(parts) => assert_eq!(read, Ok(parts)),
                None => assert!(read.unwrap_err().starts_with("has changed"), "{then}"),
            }
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(content(path).await.unwrap_err().to_string(), "there is no such file");
        assert!(content(env::temp_dir()).await.unwrap_err().to_string().starts_with("is a folder"));
    }
}
