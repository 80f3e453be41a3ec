//! Keys that were pressed.

use std::io::Read as _;

use tokio::sync::mpsc::{Receiver, channel};

/// What keys mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Enter,
    Back,
    Erase,
    Letter(char),
    Interrupt,
}

/// Keys, as they are pressed. It ends when the terminal is gone.
pub(super) fn pressed() -> Receiver<Key> {
    // Nobody presses more keys than these between two looks.
    let (tell, pressed) = channel(64);
    // Reading blocks; the thread ends with the process.
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok(count @ 1..) = std::io::stdin().read(&mut bytes) {
            for key in keys(&bytes[..count]) {
                if tell.blocking_send(key).is_err() {
                    return;
                }
            }
        }
    });
    pressed
}

/// What a terminal in raw mode sends for keys. It sends a sequence at once: what it sends alone is a key of its own.
fn keys(bytes: &[u8]) -> Vec<Key> {
    const SEQUENCES: [(&str, Key); 10] = [
        ("\x1b[A", Key::Up),
        ("\x1bOA", Key::Up),
        ("\x1b[B", Key::Down),
        ("\x1bOB", Key::Down),
        ("\x1b[C", Key::Enter),
        ("\x1bOC", Key::Enter),
        ("\x1b[D", Key::Back),
        ("\x1bOD", Key::Back),
        ("\x1b[5~", Key::PageUp),
        ("\x1b[6~", Key::PageDown),
    ];
    let text = String::from_utf8_lossy(bytes);
    let mut rest = text.as_ref();
    let mut keys = Vec::new();
    while let Some(letter) = rest.chars().next() {
        if let Some((sequence, key)) = SEQUENCES.iter().find(|(sequence, _)| rest.starts_with(sequence)) {
            keys.push(*key);
            rest = &rest[sequence.len()..];
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        keys.push(match letter {
            '\u{1b}' if rest.starts_with(['[', 'O']) => {
                // A sequence that means nothing here, up to its last letter.
                let end = rest.char_indices().skip(1).find(|(_, c)| c.is_ascii_alphabetic() || *c == '~');
                rest = end.map_or("", |(at, _)| &rest[at + 1..]);
                continue;
            }
            '\u{1b}' => Key::Back,
            '\r' | '\n' => Key::Enter,
            '\u{7f}' | '\u{8}' => Key::Erase,
            '\u{3}' | '\u{4}' => Key::Interrupt,
            letter if letter.is_control() => continue,
            letter => Key::Letter(letter),
        });
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_keys_and_letters_are_letters() {
        assert_eq!(keys(b"\x1b[A\x1b[Bq"), [Key::Up, Key::Down, Key::Letter('q')]);
        assert_eq!(keys(b"\x1b"), [Key::Back]);
        assert_eq!(keys(b"\r\x7f\x03"), [Key::Enter, Key::Erase, Key::Interrupt]);
        assert_eq!(keys("/é".as_bytes()), [Key::Letter('/'), Key::Letter('é')]);
        assert_eq!(keys(b"\x1b[1;5Hx\x1b[5~"), [Key::Letter('x'), Key::PageUp], "others mean nothing");
        assert_eq!(keys(b"\x1b["), []);
    }
}
