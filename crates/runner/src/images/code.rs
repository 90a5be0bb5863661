//! Images whose program is WebAssembly: it runs in this process, and needs no container.
//!
//! # Invariants
//! * Code is granted what a user who installs it says and what the code itself declares to need, and nothing else. A step is granted nothing.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use ferroplane_sandbox::ImageConfig;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

/// What WebAssembly begins with.
const MAGIC: [u8; 4] = *b"\0asm";
/// More code than this is refused in any case.
#[cfg(feature = "wasm")]
const MOST_CODE: u64 = 64 << 20;

/// Where the code of an image is in it, if its program is code.
pub(super) fn find(root: &Path, config: &ImageConfig) -> Option<String> {
    let program = config.entrypoint.first().or_else(|| config.cmd.first())?;
    let path = Path::new("/").join(&config.working_dir).join(program);
    let path = path.to_str()?.trim_start_matches('/').to_owned();
    let mut magic = [0; MAGIC.len()];
    open(root, &path)?.read_exact(&mut magic).ok()?;
    (magic == MAGIC).then_some(path)
}

/// A file of an image. Links do not lead out of it.
fn open(root: &Path, path: &str) -> Option<File> {
    let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    // A fifo in its place must not keep us waiting.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(openat2(&root, path, flags, Mode::empty(), resolve).ok()?);
    file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
}

#[cfg(not(feature = "wasm"))]
pub(super) use absent::{CompiledCode, code_function};
#[cfg(feature = "wasm")]
pub(super) use present::{CompiledCode, code_function};

#[cfg(feature = "wasm")]
mod present {
    use std::io::{self, Read as _};
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use ferroplane_engine::Isolation;
    use ferroplane_wasm::{CodeSize, Grants, Limits, Stillness};
    use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

    use super::super::error::{ImageError, InvalidGrant};
    use super::super::words::LastWords;
    use super::super::{Images, ReadyImage, blocking};
    use super::{MOST_CODE, open};
    use crate::directory::Runner;
    use crate::error::CallError;
    use crate::external::{ImageCall, ImageOutput};
    use crate::process::LineSink;
    use crate::wasm_function::{WasmFunction, shared_wasm_runtime};

    /// How much the compiler may have to do for a step: a user who writes Compositions chooses the code, and it is compiled in this process.
    /// The example in Python counts as 7.8 MB of functions, of which one has 427 kB and no variables, and as 3.6 million of bytes times variables.
    const CODE_OF_STEP: CodeSize = CodeSize { functions: 16 << 20, longest: 512 << 10, variables: 8 << 20 };

    /// Steps have their code compiled one after the other: a compiler takes all processors and much memory. They wait without a thread.
    static TURNS: Semaphore = Semaphore::const_new(1);

    /// The code of an image, compiled when it is called first, and granted nothing.
    pub(in super::super) type CompiledCode = OnceCell<Arc<WasmFunction>>;

    impl Images {
        /// Run the code of an image once, as its program.
        pub(in super::super) async fn run_code(
            &self,
            image: &Arc<ReadyImage>,
            call: &ImageCall,
            words: &LastWords,
        ) -> Result<ImageOutput, CallError> {
            if call.has_network && call.image.isolation == Isolation::Container {
                return Err(ImageError::NetworkForCode.for_call(&call.image.reference));
            }
            let code = code_of_step(image, call).await?;
            let usual = Limits::default();
            let memory = call.image.memory.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
            let limits = Limits { time: call.timeout, memory: memory.unwrap_or(usual.memory), ..usual };
            let (now, seed) = call.stillness;
            let (words, hand_on) = (words.clone(), self.line_sink(call));
            let log = Arc::new(move |line: &str| {
                words.keep(line);
                hand_on(line);
            });
            let input = call.standard_input.clone();
            let standard_output = code.run_text(input, Stillness { now, seed }, limits, log).await?;
            Ok(ImageOutput { standard_output, ..ImageOutput::default() })
        }
    }

    /// The code of a step, compiled when it is called first.
    async fn code_of_step(image: &Arc<ReadyImage>, call: &ImageCall) -> Result<Arc<WasmFunction>, CallError> {
        if let Some(code) = image.compiled().get() {
            return Ok(code.clone());
        }
        let name = &call.image.reference;
        let Some(turn) = turn(call.timeout).await else {
            return Err(CallError::Timeout { target: name.clone(), after: call.timeout });
        };
        // A task of its own, which goes on if the caller gives up: the compiler cannot be stopped, and the next call needs the result.
        let task = tokio::spawn(compile_step(image.clone(), name.clone(), turn));
        let compiled = task.await.unwrap_or_else(|error| Err(ImageError::Background(error)));
        compiled.map_err(|error| error.for_call(name))
    }

    /// Waits until nothing is compiled for another step. Nothing if that takes too long.
    async fn turn(limit: Duration) -> Option<SemaphorePermit<'static>> {
        tokio::time::timeout(limit, TURNS.acquire()).await.ok()?.ok()
    }

    async fn compile_step(
        image: Arc<ReadyImage>,
        name: String,
        _turn: SemaphorePermit<'static>,
    ) -> Result<Arc<WasmFunction>, ImageError> {
        let compile = || async {
            let path = image.code().unwrap_or_default();
            let compiled = compile(&name, image.path(), path, Grants::default(), CODE_OF_STEP).await?;
            Ok::<_, ImageError>(Arc::new(compiled))
        };
        image.compiled().get_or_try_init(compile).await.cloned()
    }

    /// The function in an image that is WebAssembly, with what the text grants it.
    pub(in super::super) async fn code_function(
        name: &str,
        image: &ReadyImage,
        grants: &str,
        also: Option<LineSink>,
    ) -> Result<Runner, ImageError> {
        let path = image.code().unwrap_or_default();
        let compiled = compile(name, image.path(), path, grants_of(grants)?, CodeSize::UNLIMITED).await?;
        Ok(Runner::Wasm(compiled.also_logging_to(also)))
    }

    async fn compile(
        name: &str,
        root: &Path,
        path: &str,
        grants: Grants,
        limit: CodeSize,
    ) -> Result<WasmFunction, ImageError> {
        let (name, root, path) = (name.to_owned(), root.to_owned(), path.to_owned());
        let compile = move || {
            let unreadable = |source| ImageError::Read { path: root.join(&path), source };
            let mut code = Vec::new();
            let file = open(&root, &path).ok_or_else(|| unreadable(io::ErrorKind::NotFound.into()))?;
            // One byte more than is allowed, so that a caller that checks sees that it is too much.
            file.take(MOST_CODE + 1).read_to_end(&mut code).map_err(unreadable)?;
            CodeSize::of(&code).check(&limit)?;
            Ok(WasmFunction::new(&shared_wasm_runtime()?, &name, &code, grants, Limits::default())?)
        };
        blocking(compile).await?
    }

    /// What a Function grants its code. Directories of this machine cannot be granted this way: a user who may install functions need not be
    /// its administrator.
    fn grants_of(text: &str) -> Result<Grants, InvalidGrant> {
        let mut grants = Grants::default();
        for grant in text.split(',').map(str::trim).filter(|grant| !grant.is_empty()) {
            let invalid = || InvalidGrant { grant: grant.to_owned() };
            match grant.split_once('=') {
                None if grant == "clock" => grants.clock = true,
                None if grant == "random" => grants.randomness = true,
                Some(("connect", address)) => {
                    grants.addresses.insert(address.parse().map_err(|_| invalid())?);
                }
                Some(("env", variable)) => {
                    let pair = variable.split_once('=').filter(|(name, _)| !name.is_empty());
                    let (name, value) = pair.ok_or_else(invalid)?;
                    grants.env.insert(name.to_owned(), value.to_owned());
                }
                _ => return Err(invalid()),
            }
        }
        Ok(grants)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Code with one function that has this many variables, and does nothing for a kilobyte.
        fn code(variables: [u8; 2]) -> Vec<u8> {
            let function = [&[1_u8][..], &variables, &[0x7f], &[0x01; 1018], &[0x0b]].concat();
            let section = [&[1_u8, 0xff, 0x07][..], &function[..]].concat();
            let header =
                b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a\x82\x08";
            [&header[..], &section[..]].concat()
        }

        async fn compile_as_step(code: &[u8]) -> Result<WasmFunction, ImageError> {
            let image = tempfile::tempdir().expect("image");
            std::fs::write(image.path().join("function.wasm"), code).expect("code");
            compile("step", image.path(), "function.wasm", Grants::default(), CODE_OF_STEP).await
        }

        #[tokio::test]
        async fn code_of_a_step_that_would_keep_the_compiler_busy_is_refused() {
            compile_as_step(&code([0x80, 0x08])).await.expect("1,024 variables in 1,023 bytes");
            let error = compile_as_step(&code([0x80, 0x60])).await.expect_err("12,288 variables");
            assert_eq!(
                ferroplane_engine::chain(&error),
                "cannot run its WebAssembly: cannot compile the code: it has 12570624 bytes times variables in one function, \
                 and at most 8388608 are accepted"
            );
        }

        #[tokio::test]
        async fn step_waits_for_the_compiler_no_longer_than_its_time() {
            let first = turn(Duration::MAX).await.expect("nothing else is compiled");
            assert!(turn(Duration::ZERO).await.is_none());
            drop(first);
            assert!(turn(Duration::ZERO).await.is_some());
        }

        #[test]
        fn grants_are_read_and_directories_are_refused() {
            let grants = grants_of("clock, random,connect=10.0.0.1:443,env=A=b=c").expect("grants");
            assert!(grants.clock && grants.randomness);
            assert_eq!(grants.env.get("A").map(String::as_str), Some("b=c"));
            assert_eq!(grants.addresses.len(), 1);
            assert_eq!(grants_of(" "), Ok(Grants::default()));
            for bad in ["read=/etc", "write=/", "clock=1", "connect=example.org:80", "env=A", "env==b", "all"]
            {
                assert!(grants_of(bad).is_err(), "{bad}");
            }
        }
    }
}

#[cfg(not(feature = "wasm"))]
mod absent {
    use super::super::error::ImageError;
    use super::super::words::LastWords;
    use super::super::{Images, ReadyImage};
    use crate::directory::Runner;
    use crate::error::CallError;
    use crate::external::{ImageCall, ImageOutput};
    use crate::process::LineSink;

    /// Nothing is compiled here.
    pub(in super::super) type CompiledCode = ();

    impl Images {
        #[expect(
            clippy::unused_async,
            clippy::unused_self,
            reason = "in other builds it has something to do"
        )]
        pub(in super::super) async fn run_code(
            &self,
            _: &ReadyImage,
            call: &ImageCall,
            _: &LastWords,
        ) -> Result<ImageOutput, CallError> {
            Err(ImageError::NoCode.for_call(&call.image.reference))
        }
    }

    #[expect(clippy::unused_async, reason = "in other builds it has something to wait for")]
    pub(in super::super) async fn code_function(
        _: &str,
        _: &ReadyImage,
        _: &str,
        _: Option<LineSink>,
    ) -> Result<Runner, ImageError> {
        Err(ImageError::NoCode)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn config(entrypoint: &str, working_dir: &str) -> ImageConfig {
        let (entrypoint, working_dir) = (vec![entrypoint.to_owned()], working_dir.to_owned());
        ImageConfig { entrypoint, working_dir, ..ImageConfig::default() }
    }

    #[test]
    fn code_is_known_by_its_first_bytes_and_never_found_outside_of_its_image() {
        let (image, outside) = (tempfile::tempdir().expect("image"), tempfile::tempdir().expect("outside"));
        let code = [&MAGIC[..], &[1, 0, 0, 0]].concat();
        std::fs::write(image.path().join("function.wasm"), &code).expect("code");
        std::fs::write(image.path().join("program"), "#!/bin/sh\n").expect("program");
        std::fs::write(outside.path().join("code"), &code).expect("code");
        symlink(outside.path().join("code"), image.path().join("link")).expect("link");
        symlink("/function.wasm", image.path().join("own-link")).expect("link");
        let found = |entrypoint: &str, directory: &str| find(image.path(), &config(entrypoint, directory));
        assert_eq!(found("/function.wasm", "").as_deref(), Some("function.wasm"));
        assert_eq!(found("function.wasm", "/").as_deref(), Some("function.wasm"));
        assert_eq!(found("/own-link", "").as_deref(), Some("own-link"));
        for none in ["/program", "/link", "/none", "/"] {
            assert_eq!(found(none, ""), None, "{none}");
        }
    }
}
