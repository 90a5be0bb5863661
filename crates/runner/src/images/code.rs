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
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use ferroplane_engine::Isolation;
    use ferroplane_wasm::{CodeSize, Compilation, CompilerLimits, Grants, Limits, Stillness};
    use tokio::sync::{OnceCell, Semaphore};
    use tokio::time::timeout;

    use super::super::error::{ImageError, InvalidGrant};
    use super::super::words::LastWords;
    use super::super::{CallLimits, Images, ReadyImage, blocking};
    use super::{MOST_CODE, open};
    use crate::directory::Runner;
    use crate::error::CallError;
    use crate::external::{ImageCall, ImageOutput};
    use crate::wasm_function::{WasmFunction, shared_wasm_runtime};

    /// How much the compiler may have to do for a step: a user who writes Compositions chooses the code. The example in Python counts as 7.8 MB
    /// of functions, of which one has 427 kB and no variables, and as 3.6 million of bytes times variables.
    const CODE_OF_STEP: CodeSize = CodeSize { functions: 16 << 20, longest: 512 << 10, variables: 8 << 20 };

    /// How much a compiler may use for a step. With it, a pod that may have 1 GiB has room for what runs there beside it. The example in
    /// Python takes about 19 s of processor time in a debug build, and some 550 MiB.
    const COMPILER_OF_STEP: CompilerLimits = CompilerLimits {
        memory: 640 << 20,
        processor_time: Duration::from_mins(1),
        time: Duration::from_mins(2),
        output: 128 << 20,
    };

    /// What code may take to be compiled.
    #[derive(Debug, Clone, Copy)]
    struct Bounds {
        code: CodeSize,
        compiler: CompilerLimits,
    }

    impl Bounds {
        /// For code that any author of a Composition chooses.
        const STEP: Self = Self { code: CODE_OF_STEP, compiler: COMPILER_OF_STEP };

        /// For code of a user who may install functions.
        fn of_package() -> Self {
            Self { code: CodeSize::UNLIMITED, compiler: CompilerLimits::default() }
        }
    }

    /// Steps have their code compiled one after the other: what compilers take adds up. They wait without a thread.
    static TURNS: Semaphore = Semaphore::const_new(1);

    /// Compiled code of steps is read one after the other, too, since it may be large. It is there within milliseconds.
    static READS: Semaphore = Semaphore::const_new(1);

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
            let given = CallLimits { time: Some(call.timeout), memory: call.image.memory, cpu: None };
            let limits = limits_of(given);
            let (now, seed) = call.stillness;
            let (words, hand_on) = (words.clone(), self.line_sink(call, None));
            let log = Arc::new(move |line: &str| {
                words.keep(line);
                hand_on(line);
            });
            let input = call.standard_input.clone();
            let stillness = Stillness { now, seed };
            let standard_output = code.run_text(&call.tenant, input, stillness, limits, log).await?;
            Ok(ImageOutput { standard_output, ..ImageOutput::default() })
        }
    }

    /// The code of a step, compiled when it is called first.
    async fn code_of_step(image: &Arc<ReadyImage>, call: &ImageCall) -> Result<Arc<WasmFunction>, CallError> {
        if let Some(code) = image.compiled().get() {
            return Ok(code.clone());
        }
        let (root, path) = (image.path(), image.code().unwrap_or_default());
        let code = CodeOfStep { name: &call.image.reference, root, path };
        code.load(image.compiled(), call.timeout).await
    }

    /// Where the code of a step is.
    #[derive(Clone, Copy)]
    struct CodeOfStep<'a> {
        name: &'a str,
        root: &'a Path,
        path: &'a str,
    }

    impl CodeOfStep<'_> {
        /// Find or compile it, once for all calls.
        async fn load(self, cell: &CompiledCode, limit: Duration) -> Result<Arc<WasmFunction>, CallError> {
            let is_compiling = AtomicBool::new(false);
            let load = || async {
                if let Some(found) = self.find().await? {
                    return Ok(Arc::new(found));
                }
                let _turn = TURNS.acquire().await;
                is_compiling.store(true, Ordering::Relaxed);
                let compiled = compile(self.name, self.root, self.path, Grants::default(), Bounds::STEP);
                Ok::<_, ImageError>(Arc::new(compiled.await?))
            };
            // Dropped at the deadline, and if the caller gives up before, which ends the compiler.
            match timeout(limit, cell.get_or_try_init(load)).await {
                Ok(code) => code.cloned().map_err(|error| error.for_call(self.name)),
                Err(_) if is_compiling.load(Ordering::Relaxed) => {
                    Err(ImageError::SlowCode { timeout: limit }.for_call(self.name))
                }
                Err(_) => Err(CallError::Timeout { target: self.name.to_owned(), after: limit }),
            }
        }

        /// The code, if it was compiled before, by an earlier process for example. That waits for no compiler.
        async fn find(self) -> Result<Option<WasmFunction>, ImageError> {
            let _turn = READS.acquire().await;
            let (name, root, path) = (self.name.to_owned(), self.root.to_owned(), self.path.to_owned());
            let find = move || {
                let code = read(&root, &path, &CODE_OF_STEP)?;
                Ok(WasmFunction::find(&shared_wasm_runtime()?, &name, &code, Limits::default())?)
            };
            blocking(find).await?
        }
    }

    /// The function in an image that is WebAssembly, with what the text grants it.
    pub(in super::super) async fn code_function(
        images: &Images,
        name: &str,
        image: &ReadyImage,
        grants: &str,
        limits: CallLimits,
    ) -> Result<Runner, ImageError> {
        let path = image.code().unwrap_or_default();
        let compiled = compile(name, image.path(), path, grants_of(grants)?, Bounds::of_package()).await?;
        let compiled = compiled.within(limits_of(limits)).also_logging_to(images.function_sink(name));
        let lines = images.inner.settings.lines.clone();
        Ok(Runner::Wasm(match lines {
            Some(lines) => compiled.logging_to(lines),
            None => compiled,
        }))
    }

    /// The usual limits of code, but for those that are given.
    fn limits_of(given: CallLimits) -> Limits {
        let usual = Limits::default();
        let memory = given.memory.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        Limits { time: given.time.unwrap_or(usual.time), memory: memory.unwrap_or(usual.memory), ..usual }
    }

    /// Compiles the code in an image. If the returned future is dropped, its compiler ends.
    async fn compile(
        name: &str,
        root: &Path,
        path: &str,
        grants: Grants,
        bounds: Bounds,
    ) -> Result<WasmFunction, ImageError> {
        let (name, root, path) = (name.to_owned(), root.to_owned(), path.to_owned());
        let compilation = Compilation { limits: bounds.compiler, ..Compilation::default() };
        let _cancel = compilation.cancellation.cancel_on_drop();
        let compile = move || {
            let code = read(&root, &path, &bounds.code)?;
            let (runtime, limits) = (shared_wasm_runtime()?, Limits::default());
            Ok(WasmFunction::compile(&runtime, &name, &code, grants, limits, &compilation)?)
        };
        blocking(compile).await?
    }

    /// Reads the code in an image, unless a compiler would have too much to do with it.
    fn read(root: &Path, path: &str, limit: &CodeSize) -> Result<Vec<u8>, ImageError> {
        let unreadable = |source| ImageError::Read { path: root.join(path), source };
        let mut code = Vec::new();
        let file = open(root, path).ok_or_else(|| unreadable(io::ErrorKind::NotFound.into()))?;
        // One byte more than is allowed, so that a caller that checks sees that it is too much.
        file.take(MOST_CODE + 1).read_to_end(&mut code).map_err(unreadable)?;
        CodeSize::of(&code).check(limit)?;
        Ok(code)
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

        /// An image with this code.
        fn image(code: &[u8]) -> tempfile::TempDir {
            let image = tempfile::tempdir().expect("image");
            std::fs::write(image.path().join("function.wasm"), code).expect("code");
            image
        }

        fn step(image: &tempfile::TempDir) -> CodeOfStep<'_> {
            CodeOfStep { name: "step", root: image.path(), path: "function.wasm" }
        }

        async fn compile_as_step(code: &[u8]) -> Result<WasmFunction, ImageError> {
            let image = image(code);
            compile("step", image.path(), "function.wasm", Grants::default(), Bounds::STEP).await
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
            let (image, cell) = (image(&code([0x81, 0x08])), OnceCell::new());
            let first = TURNS.acquire().await.expect("it is never closed");
            let error = step(&image).load(&cell, Duration::from_millis(1)).await;
            assert!(matches!(error, Err(CallError::Timeout { .. })), "{error:?}");
            drop(first);
            step(&image).load(&cell, Duration::MAX).await.expect("its turn");
        }

        #[tokio::test]
        async fn step_whose_code_was_compiled_before_waits_for_no_compiler() {
            let code = code([0x82, 0x08]);
            let _compiled = compile_as_step(&code).await.expect("code");
            let _turn = TURNS.acquire().await.expect("it is never closed");
            step(&image(&code)).load(&OnceCell::new(), Duration::from_mins(1)).await.expect("code");
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
    use super::super::{CallLimits, Images, ReadyImage};
    use crate::directory::Runner;
    use crate::error::CallError;
    use crate::external::{ImageCall, ImageOutput};

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
        _: &Images,
        _: &str,
        _: &ReadyImage,
        _: &str,
        _: CallLimits,
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
