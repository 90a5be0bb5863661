//! Formats and what they print. `crates/template/tests` compares far more of them with Go.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn print(format: &str, values: &[Value]) -> String {
    let values: Vec<_> = values.iter().map(|value| Any::of(value, Numbers::Integers)).collect();
    sprintf(format, &values).unwrap()
}

fn print_one(format: &str, value: impl Into<Value>) -> String {
    print(format, &[value.into()])
}

#[test]
fn values_are_written_as_their_verbs_ask() {
    assert_eq!(print("%s-%d-%t", &[json!("a"), json!(5), json!(true)]), "a-5-true");
    assert_eq!(print_one("%v", json!({"b": [1, "x", null], "a": 1.5})), "map[a:1.5 b:[1 x <nil>]]");
    assert_eq!(print_one("%q", "a\"b"), r#""a\"b""#);
    assert_eq!(print_one("%x", "hi"), "6869");
    assert_eq!(print_one("%X", 255), "FF");
    assert_eq!(print_one("%5.2f|", 2.71234), " 2.71|");
    assert_eq!(print_one("%v", json!(null)), "<nil>");
    assert_eq!(print_one("%T", json!([])), "[]interface {}");
    assert_eq!(print_one("100%%", json!("x")), "100%%!(EXTRA string=x)");
    assert_eq!(
        print_one("%#v", json!({"a": [null, "b", 1]})),
        r#"map[string]interface {}{"a":[]interface {}{interface {}(nil), "b", 1}}"#
    );
}

#[test]
fn widths_and_flags_are_honoured() {
    assert_eq!(print_one("%05d", -42), "-0042");
    assert_eq!(print_one("%-5d|", 42), "42   |");
    assert_eq!(print_one("%+d", 42), "+42");
    assert_eq!(print_one("%.3d", 7), "007");
    assert_eq!(print_one("%#x", 255), "0xff");
    assert_eq!(print_one("%05s", "ab"), "000ab");
    assert_eq!(print_one("%.2s", "héllo"), "hé");
    assert_eq!(print_one("%+06.1f", 2.5), "+002.5");
    assert_eq!(print("%*d", &[json!(5), json!(42)]), "   42");
    assert_eq!(print("%[2]s %[1]s", &[json!("a"), json!("b")]), "b a");
    assert_eq!(print_one("% x", "abc"), "61 62 63");
    assert_eq!(print_one("%#q", "a"), "`a`");
    assert_eq!(print_one("%U", 0x1F600), "U+1F600");
    assert_eq!(print_one("%c", 65), "A");
    assert_eq!(print_one("%#.3g", 1.5), "1.50");
}

#[test]
fn what_does_not_go_together_is_said_in_place() {
    assert_eq!(print_one("%d", "x"), "%!d(string=x)");
    assert_eq!(print_one("%s", 5), "%!s(int64=5)");
    assert_eq!(print_one("%5d", "a"), "%!d(string=    a)");
    assert_eq!(print_one("%s", json!(null)), "%!s(<nil>)");
    assert_eq!(print_one("%d", json!(["a"])), "[%!d(string=a)]");
    assert_eq!(print_one("%s %s", "a"), "a %!s(MISSING)");
    assert_eq!(print_one("a", json!(null)), "a%!(EXTRA <nil>)");
    assert_eq!(print("%s", &[json!("a"), json!(1), json!("b")]), "a%!(EXTRA int64=1, string=b)");
    assert_eq!(print_one("%", "a"), "%!(NOVERB)%!(EXTRA string=a)");
    assert_eq!(print_one("%[3]d", 1), "%!d(BADINDEX)");
    assert_eq!(print_one("%[x]d", 1), "%!d(BADINDEX)");
    assert_eq!(print("%*d", &[json!("a"), json!(1)]), "%!(BADWIDTH)1");
    assert_eq!(print_one("%!", "a"), "%!!(string=a)");
    assert_eq!(print_one("%w", json!({"a": 1})), "%!w(map[string]interface {}=map[a:1])");
}

#[test]
fn numbers_over_the_wire_are_floats() {
    let million = json!(1_000_000);
    let value = [Any::of(&million, Numbers::Floats)];
    assert_eq!(sprintf("%v", &value).unwrap(), "1e+06");
    assert_eq!(sprintf("%d", &value).unwrap(), "1000000");
}

#[test]
fn bytes_that_are_no_text_pass_through() {
    let bytes = || [Any::Bytes(vec![b'a', 0xff, b'b'])];
    assert_eq!(sprintf_any("%4s", &bytes()), Ok(Any::Bytes(vec![b' ', b'a', 0xff, b'b'])));
    assert_eq!(sprintf_any("%.2v", &bytes()), Ok(Any::Bytes(vec![b'a', 0xff])));
    assert_eq!(sprintf("%q", &bytes()).unwrap(), r#""a\xffb""#);
    assert_eq!(sprintf("%x", &bytes()).unwrap(), "61ff62");
}

#[test]
fn no_width_or_precision_is_too_large_for_any_verb() {
    let values = [Any::text("a".to_owned()), Any::Int(7), Any::Float(2.5), Any::Nil];
    for verb in "vdsqxXeEgGtcUbopTwfFO".chars() {
        for format in [format!("%.70000{verb}"), format!("%70000{verb}"), format!("%#+0.70000{verb}")] {
            for value in &values {
                assert!(sprintf(&format, std::slice::from_ref(value)).is_ok(), "{format}");
            }
        }
    }
    assert_eq!(print_one("%.70000U", 0x1F600).len(), 70_002);
    assert_eq!(print_one("%.6U", 0x1F600), "U+01F600");
    assert_eq!(print_one("%U", -1), "U+FFFFFFFFFFFFFFFF");
}

#[test]
fn endless_text_is_refused() {
    let format = "%1000000d".repeat(20);
    let values = vec![Any::Int(1); 20];
    assert_eq!(sprintf(&format, &values), Err(TooLong));
}

proptest! {
    #[test]
    fn any_format_gives_some_text(format in "([a-z%\\[\\]0-9.*+# -]|%[vdsqxXeEgGtcUbopTw]){0,12}", text in ".*", number: i64, float: f64) {
        let values = [Any::text(text), Any::Int(number), Any::Float(float), Any::Nil];
        let _ = sprintf(&format, &values);
    }
}
