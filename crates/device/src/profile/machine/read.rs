//! Reads the table of one device of a machine file.
//!
//! Invariants
//! - Every field is read or refused: a table's reader ends with [`Fields::finish`]. Checked by
//!   `mistakes_are_named_with_line_and_remedy`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use littoral_base::mutant;

use super::{DeviceSpec, Medium};
use crate::error::Result;
use crate::profile::fields::{Fields, Scalar};
use crate::profile::kinds::check_zones;
use crate::profile::spec::Row;
use crate::profile::{DeviceKind, INTERFACES, Interface, Profile, Transfer, choice, in_range};

/// Reads one device; relative paths begin at `folder`.
pub(super) fn read_device(
    name: String,
    mut fields: Fields<'_, '_>,
    folder: &Path,
) -> Result<DeviceSpec> {
    let at = fields.required_text("kind")?.1;
    let kind = choice(&mut fields, "kind", &DeviceKind::ALL)?;
    let medium = read_medium(&mut fields, kind)?.within(folder);
    let profile = read_profile(&mut fields, kind, &medium, folder)?;
    let (profile, configuration) = match profile {
        Some((profile, configuration)) => (Some(profile), configuration),
        None => (None, None),
    };
    let conventional = read_conventional(&mut fields, &medium)?.map(|path| folder.join(path));
    let (interface, transfer) = read_hand_over(&mut fields, kind, profile.as_ref())?;
    let has_own_pages = read_own_pages(&mut fields, kind, &medium, profile.as_ref())?;
    let mut geometry = BTreeMap::new();
    for row in kind.geometry_rows() {
        if let Some(value) = read_geometry(&mut fields, row)? {
            geometry.insert(row.field(), value);
        }
    }
    fields.finish()?;
    check_geometry(&fields, kind, &medium, profile.as_ref(), &geometry)?;
    let origin = fields.origin;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
        let message = format!("device name `{name}` has other than letters, digits, `-` and `_`");
        return Err(origin.error(at, message));
    }
    let place = origin.place(at);
    Ok(DeviceSpec {
        profile,
        configuration,
        conventional,
        interface,
        transfer,
        has_own_pages,
        place,
        geometry,
        ..DeviceSpec::new(&name, kind, medium)
    })
}

/// How modelled flash talks to the host and hands its data over.
fn read_hand_over(
    fields: &mut Fields<'_, '_>,
    kind: DeviceKind,
    profile: Option<&Profile>,
) -> Result<(Option<Interface>, Transfer)> {
    if kind != DeviceKind::Flash || profile.is_none() {
        return Ok((None, Transfer::Pointer));
    }
    let has = |fields: &mut Fields<'_, '_>, key| fields.text(key).map(|t| t.is_some());
    let interface = match has(fields, "interface")? {
        true => Some(choice(fields, "interface", &INTERFACES)?),
        false => None,
    };
    let transfer = match has(fields, "transfer")? {
        true => choice(fields, "transfer", &Transfer::ALL)?,
        false => Transfer::Pointer,
    };
    Ok((interface, transfer))
}

/// Whether the nodes of a fabric that could share pages in place keep their own.
fn read_own_pages(
    fields: &mut Fields<'_, '_>,
    kind: DeviceKind,
    medium: &Medium,
    profile: Option<&Profile>,
) -> Result<bool> {
    const PAGES: [(&str, bool); 2] = [("shared", false), ("own", true)];
    let is_choice = kind == DeviceKind::Fabric
        && profile.is_none()
        && matches!(medium, Medium::Ram | Medium::Pool(_));
    match is_choice && fields.text("pages")?.is_some() {
        true => choice(fields, "pages", &PAGES),
        false => Ok(false),
    }
}

fn read_medium(fields: &mut Fields<'_, '_>, kind: DeviceKind) -> Result<Medium> {
    let (text, at) = fields.required_text("medium")?;
    let medium = Medium::parse(text).map_err(|e| fields.origin.error(at, e))?;
    if kind.media().contains(&medium.scheme()) {
        return Ok(medium);
    }
    let legal = kind.media().join(", ");
    let (field, kind) = (fields.name("medium"), kind.name());
    let message = format_args!("`{field}` is `{text}`; a {kind} device takes {legal}");
    Err(fields.origin.error(at, message))
}

fn read_profile(
    fields: &mut Fields<'_, '_>,
    kind: DeviceKind,
    medium: &Medium,
    folder: &Path,
) -> Result<Option<(Profile, Option<String>)>> {
    let Some((name, at)) = fields.text("profile")? else { return Ok(None) };
    if *medium != Medium::Ram {
        let field = fields.name("profile");
        let message = format!("`{field}` describes a modelled device, on `ram`; this one is real");
        return Err(fields.origin.error(at, message));
    }
    let (file, configuration) = match name.split_once(':') {
        Some((file, configuration)) => (file, Some(configuration)),
        None => (name, None),
    };
    let is_path = file.contains('/') || file.ends_with(".toml");
    let mut name = match is_path && !mutant!("device_profile_in_working_folder") {
        true => folder.join(file).display().to_string(),
        false => file.to_owned(),
    };
    if let Some(configuration) = configuration {
        name = format!("{name}:{configuration}");
    }
    let opened = match kind {
        DeviceKind::Fabric => Profile::configured(&name).map(|(p, c)| (p, Some(c))),
        _ => Profile::open(&name).and_then(|p| p.expect_kind(kind).cloned()).map(|p| (p, None)),
    };
    opened.map(Some).map_err(|e| e.in_context(fields.origin.place(at)))
}

fn read_conventional(fields: &mut Fields<'_, '_>, medium: &Medium) -> Result<Option<PathBuf>> {
    let Some((path, at)) = fields.text("conventional")? else { return Ok(None) };
    if !matches!(medium, Medium::Zbd(_)) {
        let field = fields.name("conventional");
        let message = format!("`{field}` stands beside `zbd:`; elsewhere say `conventional_zones`");
        return Err(fields.origin.error(at, message));
    }
    Ok(Some(PathBuf::from(path)))
}

fn read_geometry(fields: &mut Fields<'_, '_>, row: &Row) -> Result<Option<u64>> {
    let Some((value, at)) = fields.number_or_text(row.field())? else { return Ok(None) };
    let parsed = match value {
        Scalar::Number(n) => Ok(n),
        Scalar::Text(text) => row.unit.parse(text),
    };
    let name = fields.name(row.field());
    let checked = parsed.and_then(|v| in_range(row, v));
    checked.map(Some).map_err(|m| fields.origin.error(at, format_args!("`{name}`: {m}")))
}

/// What no single field can check: memory and new files need their size given, zones must fit.
fn check_geometry(
    fields: &Fields<'_, '_>,
    kind: DeviceKind,
    medium: &Medium,
    profile: Option<&Profile>,
    geometry: &BTreeMap<&'static str, u64>,
) -> Result<()> {
    // A zoned profile has a geometry; what stands beside it replaces single figures.
    let from_profile = |key: &str| profile.and_then(|p| p.value(&format!("geometry.{key}")));
    let figure = |key: &str| geometry.get(key).copied().or_else(|| from_profile(key));
    let needed: &[&str] = match (kind, medium) {
        (DeviceKind::Flash | DeviceKind::Memory, Medium::Ram) => &["capacity"],
        (DeviceKind::Zoned, Medium::Ram | Medium::File(_)) => {
            &["block_bytes", "zones", "zone_size"]
        }
        (DeviceKind::Fabric, _) => &["nodes", "window"],
        _ => &[],
    };
    if let Some(absent) = needed.iter().find(|k| figure(k).is_none()) {
        return Err(fields.missing(absent));
    }
    match kind {
        DeviceKind::Zoned => check_zones("", figure).map_err(|m| fields.mistake(&m)),
        _ => Ok(()),
    }
}
