//! Disks that are partitioned and formatted.

use serde::Deserialize;
use windlass_api::AnyObject;

use super::{CloudConfigError, part};
use crate::yaml::Yaml;

/// Disks to partition and format.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct DiskSetup {
    partitions: Vec<Disk>,
    filesystems: Vec<FileSystem>,
}

/// A device to partition.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Disk {
    device: String,
    layout: Option<bool>,
    #[serde(default)]
    disk_layout: Vec<Partition>,
    overwrite: Option<bool>,
    table_type: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Partition {
    percentage: i64,
    partition_type: Option<String>,
}

/// A file system to make.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileSystem {
    device: String,
    filesystem: String,
    label: Option<String>,
    partition: Option<String>,
    overwrite: Option<bool>,
    #[serde(rename = "replaceFS")]
    replace_fs: Option<String>,
    #[serde(default)]
    extra_opts: Vec<String>,
}

/// The two sections about disks.
pub(super) struct Sections {
    pub(super) disk_setup: Yaml,
    pub(super) fs_setup: Yaml,
}

pub(super) fn of(setup: Option<&AnyObject>) -> Result<Sections, CloudConfigError> {
    let setup: DiskSetup = setup.map(|setup| part("spec.diskSetup", setup)).transpose()?.unwrap_or_default();
    let disks = setup.partitions.iter().map(|disk| (disk.device.clone(), disk_yaml(disk)));
    Ok(Sections {
        disk_setup: Yaml::Map(disks.collect()),
        fs_setup: Yaml::List(setup.filesystems.iter().map(file_system_yaml).collect()),
    })
}

fn disk_yaml(disk: &Disk) -> Yaml {
    let layout = if disk.disk_layout.is_empty() {
        disk.layout.map(Yaml::from)
    } else {
        Some(Yaml::List(disk.disk_layout.iter().map(partition_yaml).collect()))
    };
    Yaml::map([
        ("table_type", disk.table_type.as_ref().map(Yaml::from)),
        ("layout", layout),
        ("overwrite", disk.overwrite.map(Yaml::from)),
    ])
}

/// A partition is a percentage, or a percentage and a type: what sfdisk and sgdisk call it.
fn partition_yaml(partition: &Partition) -> Yaml {
    let percentage = Yaml::from(partition.percentage);
    let Some(type_) = &partition.partition_type else { return percentage };
    // cloud-init's schema wants numbers. A number whose digits are the name stands for it; other names stay as they are.
    let type_ = match type_.as_str() {
        "Linux" => Yaml::from(83),
        "LinuxSwap" => Yaml::from(82),
        "LinuxExtended" => Yaml::from(85),
        "NTFS" => Yaml::from(7),
        "LinuxRAID" => Yaml::from("fd"),
        "LVM" => Yaml::from("8e"),
        "Fat32" => Yaml::from("0c"),
        other => Yaml::from(other),
    };
    Yaml::List(vec![percentage, type_])
}

fn file_system_yaml(file_system: &FileSystem) -> Yaml {
    let options = &file_system.extra_opts;
    Yaml::map([
        ("label", file_system.label.as_ref().map(Yaml::from)),
        ("filesystem", Some(Yaml::from(&file_system.filesystem))),
        ("device", Some(Yaml::from(&file_system.device))),
        ("partition", file_system.partition.as_ref().map(Yaml::from)),
        ("overwrite", file_system.overwrite.map(Yaml::from)),
        ("replace_fs", file_system.replace_fs.as_ref().map(Yaml::from)),
        ("extra_opts", (!options.is_empty()).then(|| Yaml::texts(options))),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(value: Value) -> AnyObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn disks_have_the_names_of_cloud_init() {
        let sections = of(Some(&object(json!({
            "partitions": [
                {"device": "/dev/sdb", "layout": true, "overwrite": false, "tableType": "gpt"},
                {"device": "/dev/sdc", "diskLayout": [{"percentage": 60, "partitionType": "LinuxSwap"},
                    {"percentage": 20, "partitionType": "LVM"}, {"percentage": 20}]},
            ],
            "filesystems": [{"device": "/dev/sdb", "filesystem": "ext4", "label": "etcd_disk", "partition": "auto",
                "overwrite": true, "replaceFS": "ntfs", "extraOpts": ["-E", "lazy_itable_init=1"]}],
        }))))
        .unwrap();
        assert_eq!(
            sections.disk_setup.to_string(),
            "/dev/sdb:\n  table_type: gpt\n  layout: true\n  overwrite: false\n/dev/sdc:\n  layout:\n    \
             - - 60\n      - 82\n    - - 20\n      - '8e'\n    - 20\n"
        );
        assert_eq!(
            sections.fs_setup.to_string(),
            "- label: etcd_disk\n  filesystem: ext4\n  device: /dev/sdb\n  partition: auto\n  overwrite: true\n  \
             replace_fs: ntfs\n  extra_opts:\n    - '-E'\n    - 'lazy_itable_init=1'\n"
        );
    }

    #[test]
    fn what_is_not_said_is_not_written() {
        let sections = of(None).unwrap();
        assert_eq!((sections.disk_setup, sections.fs_setup), (Yaml::Map(Vec::new()), Yaml::List(Vec::new())));
        let error = of(Some(&object(json!({"partitions": [{}]})))).err().unwrap().to_string();
        assert_eq!(error, "spec.diskSetup cannot be read: missing field `device`");
    }
}
