//! Backup and restore.

use std::fs;
use std::sync::Arc;

use tokio::sync::Semaphore;
use windlass_store::{
    BackupError, Existing, Expect, History, RESTORE_JUMP, RestoreError, Scope, Store, Transaction, restore,
};

use crate::support::{Random, fast_dir, objects, open, pod, store_file};

async fn filled(store: &Store) {
    for number in 0..50_usize {
        let value = vec![number as u8; number * 37];
        store.put(pod(&format!("{number}")), Expect::Absent, value).await.unwrap();
    }
    store.delete(pod("7"), Expect::Present).await.unwrap();
}

#[tokio::test]
async fn a_restored_store_has_the_objects_and_goes_on_far_beyond_the_revision() {
    let dir = fast_dir();
    let (file, data) = (dir.path().join("backup"), dir.path().join("restored"));
    for store in [open(&dir.path().join("original")), Store::in_memory(History::default())] {
        filled(&store).await;
        let backup = store.backup(&file).await.unwrap();
        assert_eq!((backup.revision, backup.objects), (51, 49));
        assert_eq!(backup.bytes, fs::metadata(&file).unwrap().len());

        let restored = restore(&file, &data, Existing::Refuse).unwrap();
        assert_eq!((restored.backup, restored.revision), (backup, 51 + RESTORE_JUMP));
        let copy = open(&data);
        assert_eq!(objects(&copy.snapshot()), objects(&store.snapshot()));
        assert_eq!(copy.revision(), 51 + RESTORE_JUMP);
        assert!(copy.watch(Scope::All, 60).is_err(), "what was seen after the backup is too old");
        let written = copy.put(pod("0"), Expect::Revision(1), "new").await.unwrap();
        assert_eq!(written.revision(), 52 + RESTORE_JUMP);
        drop(copy);
        fs::remove_dir_all(&data).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_backup_made_while_writing_is_the_state_at_its_revision() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("store"));
    // Writers go on while a backup is made, but not so far that its revision is too old to be asked for.
    let turns = Arc::new(Semaphore::new(0));
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (store, turns) = (store.clone(), turns.clone());
            tokio::spawn(async move {
                let mut round = 0;
                while let Ok(turn) = turns.acquire().await {
                    turn.forget();
                    round += 1;
                    let value = round.to_string();
                    let pair = Transaction::new()
                        .put(pod(&format!("{writer}-left")), Expect::Anything, value.clone())
                        .put(pod(&format!("{writer}-right")), Expect::Anything, value);
                    store.commit(pair).await.unwrap();
                }
            })
        })
        .collect();
    let mut last = 0;
    for number in 0..10 {
        turns.add_permits(1000);
        store.reached(last + 50).await;
        let file = dir.path().join(format!("backup-{number}"));
        let backup = store.backup(&file).await.unwrap();
        assert!(backup.revision >= last + 50);
        last = backup.revision;
        let expected = objects(&store.snapshot_at(&Scope::All, backup.revision).unwrap());
        let data = dir.path().join(format!("restored-{number}"));
        restore(&file, &data, Existing::Refuse).unwrap();
        assert_eq!(objects(&open(&data).snapshot()), expected);
        for writer in 0..8 {
            let value =
                |side: &str| expected.get(&format!("core/pods default/{writer}-{side}")).map(|at| &at.1);
            assert_eq!(value("left"), value("right"));
        }
    }
    turns.close();
    for writer in writers {
        writer.await.unwrap();
    }
}

#[tokio::test]
async fn a_backup_takes_the_place_of_the_one_before_and_leaves_nothing_else() {
    let dir = fast_dir();
    let store = Store::in_memory(History::default());
    let file = dir.path().join("backup");
    fs::write(&file, "the backup before").unwrap();
    store.put(pod("a"), Expect::Absent, "x").await.unwrap();
    store.backup(&file).await.unwrap();
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["backup"]);
    assert!(restore(&file, dir.path().join("data"), Existing::Refuse).is_ok());
}

#[tokio::test]
async fn a_backup_that_cannot_be_written_leaves_nothing() {
    let dir = fast_dir();
    let store = Store::in_memory(History::default());
    let nowhere = dir.path().join("missing/backup");
    let failed = store.backup(&nowhere).await.unwrap_err();
    assert!(failed.to_string().starts_with(&format!("cannot create {}", nowhere.display())), "{failed}");
    // A directory is in the way of the name, so that only the last step fails.
    let taken = dir.path().join("taken");
    fs::create_dir_all(taken.join("by-something")).unwrap();
    assert!(store.backup(&taken).await.is_err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_store_is_only_replaced_when_told_and_is_kept() {
    let dir = fast_dir();
    let (file, data) = (dir.path().join("backup"), dir.path().join("data"));
    let store = open(&data);
    store.put(pod("a"), Expect::Absent, "then").await.unwrap();
    store.backup(&file).await.unwrap();
    for _ in 0..9 {
        store.put(pod("a"), Expect::Present, "now").await.unwrap();
    }
    let in_use = restore(&file, &data, Existing::Replace).unwrap_err();
    assert!(in_use.to_string().contains("is in use by process"), "{in_use}");
    drop(store);
    let before = fs::read(store_file(&data)).unwrap();

    let refused = restore(&file, &data, Existing::Refuse).unwrap_err();
    assert_eq!(refused.to_string(), format!("data directory {} has a store in it already", data.display()));
    assert_eq!(fs::read(store_file(&data)).unwrap(), before);

    let restored = restore(&file, &data, Existing::Replace).unwrap();
    assert_eq!(restored.revision, 10 + RESTORE_JUMP, "beyond what the replaced store had reached");
    assert_eq!(open(&data).get(&pod("a")).unwrap().value(), "then");
    assert_eq!(fs::read(data.join("objects.db.replaced")).unwrap(), before);
    // And once more, over what the first time left.
    assert_eq!(restore(&file, &data, Existing::Replace).unwrap().revision, 10 + 2 * RESTORE_JUMP);
}

#[tokio::test]
async fn a_damaged_store_can_be_replaced() {
    let dir = fast_dir();
    let (file, data) = (dir.path().join("backup"), dir.path().join("data"));
    let store = open(&data);
    store.put(pod("a"), Expect::Absent, "x").await.unwrap();
    store.backup(&file).await.unwrap();
    drop(store);
    fs::write(store_file(&data), "nonsense").unwrap();
    restore(&file, &data, Existing::Replace).unwrap();
    assert_eq!(open(&data).get(&pod("a")).unwrap().value(), "x");
    assert_eq!(fs::read(data.join("objects.db.replaced")).unwrap(), b"nonsense");
}

#[tokio::test]
async fn a_damaged_backup_is_refused_before_anything_is_written() {
    let dir = fast_dir();
    let (file, data) = (dir.path().join("backup"), dir.path().join("data"));
    let store = Store::in_memory(History::default());
    filled(&store).await;
    store.backup(&file).await.unwrap();
    let whole = fs::read(&file).unwrap();
    let refuse = |bytes: &[u8], what: &str| {
        fs::write(&file, bytes).unwrap();
        let refused = restore(&file, &data, Existing::Refuse).unwrap_err();
        assert!(
            matches!(
                refused,
                RestoreError::Damaged { .. }
                    | RestoreError::NotABackup { .. }
                    | RestoreError::NewerFormat { .. }
            ),
            "{what}: {refused}"
        );
        assert!(!data.exists(), "{what}");
    };
    let mut random = Random(3);
    let anywhere: Vec<_> = (0..400).map(|_| random.below(whole.len())).collect();
    for at in (0..45).chain(anywhere) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << random.below(8);
        refuse(&bytes, &format!("byte {at} flipped"));
    }
    for len in (0..60).chain((0..100).map(|_| random.below(whole.len()))) {
        refuse(&whole[..len], &format!("cut to {len} bytes"));
    }
    refuse(&[&whole[..], b"x"].concat(), "one byte longer");
}

#[tokio::test]
async fn a_newer_backup_and_a_file_that_is_none_are_told_apart() {
    let dir = fast_dir();
    let (file, data) = (dir.path().join("backup"), dir.path().join("data"));
    fs::write(&file, "windlass-backup format 2\nand what not").unwrap();
    let newer = restore(&file, &data, Existing::Refuse).unwrap_err();
    assert_eq!(
        newer.to_string(),
        format!("backup {} has format 2, this version reads up to format 1", file.display())
    );
    fs::write(&file, "apiVersion: v1\n").unwrap();
    let other = restore(&file, &data, Existing::Refuse).unwrap_err();
    assert_eq!(other.to_string(), format!("{} is not a backup of a store", file.display()));
}

#[tokio::test]
async fn a_file_is_replaced_only_if_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::in_memory(History::default());
    let file = dir.path().join("backup");
    let backup = store.backup_unless(&file, Existing::Refuse).await.unwrap();
    std::fs::write(&file, "something else").unwrap();
    let refused = store.backup_unless(&file, Existing::Refuse).await.unwrap_err();
    assert!(matches!(&refused, BackupError::Exists { file: named } if *named == file), "{refused}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "something else");
    assert_eq!(store.backup_unless(&file, Existing::Replace).await.unwrap(), backup);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
}
