//! Functions of paths. Those of the operating system are those of Linux, where the original runs.
//!
//! Follows Go 1.26, `path/path.go`, `path/filepath/path_unix.go`.

use ferroplane_golang::path;

use super::arguments::text;
use super::function;
use crate::{Context, Failure, Function, Type, Value};

use Type::{Bool, String};

pub(super) const FUNCTIONS: &[Function] = &[
    function("base", &[String], String, base),
    function("dir", &[String], String, dir),
    function("clean", &[String], String, clean),
    function("ext", &[String], String, ext),
    function("isAbs", &[String], Bool, is_abs),
    function("osBase", &[String], String, base),
    function("osDir", &[String], String, dir),
    function("osClean", &[String], String, clean),
    function("osExt", &[String], String, ext),
    function("osIsAbs", &[String], Bool, is_abs),
];

fn base(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::text(path::base(text(args, 0))))
}

fn dir(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::text(path::dir(text(args, 0))))
}

fn clean(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::text(path::clean_bytes(text(args, 0))))
}

fn ext(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::text(path::ext(text(args, 0))))
}

fn is_abs(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::Bool(path::is_abs(text(args, 0))))
}
