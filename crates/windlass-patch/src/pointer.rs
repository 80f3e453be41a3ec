//! JSON pointers, RFC 6901: the names of fields and the indices of items on the way to a value.

use std::borrow::Cow;

/// The names on the way that a pointer describes, unescaped; none for the root. `None` if it is not a
/// pointer: every other one begins with a slash.
pub fn names(pointer: &str) -> Option<Vec<Cow<'_, str>>> {
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    Some(pointer.strip_prefix('/')?.split('/').map(unescape).collect())
}

/// The name that a part of a pointer stands for.
pub fn unescape(part: &str) -> Cow<'_, str> {
    // In this order: `~01` is the name `~1`, not a slash.
    if part.contains('~') { part.replace("~1", "/").replace("~0", "~").into() } else { part.into() }
}

/// Adds a name to the end of a pointer.
pub fn push(pointer: &mut String, name: &str) {
    pointer.push('/');
    for char in name.chars() {
        match char {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            char => pointer.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_way_into_a_pointer_and_back() {
        let cases: [(&[&str], &str); 6] = [
            (&[], ""),
            (&[""], "/"),
            (&["spec", "0", "-"], "/spec/0/-"),
            (&["a/b", "~"], "/a~1b/~0"),
            (&["~1", "~0"], "/~01/~00"),
            (&["", "", "x"], "///x"),
        ];
        for (expected, pointer) in cases {
            assert_eq!(names(pointer).unwrap(), expected, "{pointer}");
            let mut made = String::new();
            expected.iter().for_each(|name| push(&mut made, name));
            assert_eq!(made, pointer);
        }
    }

    #[test]
    fn what_does_not_begin_with_a_slash_is_not_a_pointer() {
        assert_eq!(names("spec"), None);
        assert_eq!(names("spec/paused"), None);
    }
}
