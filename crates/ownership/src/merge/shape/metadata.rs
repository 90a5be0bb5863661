//! The shape of `metadata`, which is the same for all kinds.
//!
//! Follows apimachinery 0.36.4, `pkg/apis/meta/v1/types.go`.

use super::{DEDUCED, Id, Items, MapShape, MergeShape, ScalarShape, Shapes};

/// Adds the shapes of object metadata.
pub(super) fn add(shapes: &mut Shapes) -> Id {
    let text = shapes.add(MergeShape::scalar(ScalarShape::Text));
    let number = shapes.add(MergeShape::scalar(ScalarShape::Numeric));
    let truth = shapes.add(MergeShape::scalar(ScalarShape::Boolean));
    let time = shapes.add(MergeShape::scalar(ScalarShape::Untyped));
    let texts = shapes.add(MergeShape::map(MapShape { element: Some(text), ..MapShape::default() }));
    let names = shapes.add(MergeShape::list(Items::Set, text));
    let owners = add_owners(shapes, text, truth);
    let managed = add_managed_fields(shapes, text, time);
    shapes.add(MergeShape::map(MapShape::of_fields([
        ("annotations", texts),
        ("creationTimestamp", time),
        ("deletionGracePeriodSeconds", number),
        ("deletionTimestamp", time),
        ("finalizers", names),
        ("generateName", text),
        ("generation", number),
        ("labels", texts),
        ("managedFields", managed),
        ("name", text),
        ("namespace", text),
        ("ownerReferences", owners),
        ("resourceVersion", text),
        ("selfLink", text),
        ("uid", text),
    ])))
}

fn add_owners(shapes: &mut Shapes, text: Id, truth: Id) -> Id {
    let mut owner = MapShape::of_fields([
        ("apiVersion", text),
        ("blockOwnerDeletion", truth),
        ("controller", truth),
        ("kind", text),
        ("name", text),
        ("uid", text),
    ]);
    owner.is_atomic = true;
    let owner = shapes.add(MergeShape::map(owner));
    // The one key whose default is known: an owner without identity is taken for the one with none.
    shapes.add(MergeShape::list(Items::keyed([("uid", Some("".into()))]), owner))
}

fn add_managed_fields(shapes: &mut Shapes, text: Id, time: Id) -> Id {
    let fields = shapes.add(MergeShape::map(MapShape {
        element: Some(DEDUCED),
        is_undeclared: true,
        ..MapShape::default()
    }));
    let entry = shapes.add(MergeShape::map(MapShape::of_fields([
        ("apiVersion", text),
        ("fieldsType", text),
        ("fieldsV1", fields),
        ("manager", text),
        ("operation", text),
        ("subresource", text),
        ("time", time),
    ])));
    shapes.add(MergeShape::list(Items::Atomic, entry))
}
