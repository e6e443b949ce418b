-- Where the node names no digest, the name that the inspection ran is kept, so that another image of the submitter does not go
-- on from the checkpoint of the one before.
comment on column gromacs_to_tune.pinned_image is 'The image as the inspection ran it, by its digest, so that what a tag names later does not matter; by its name where the node names no digest. Null until then, and after image was changed.';
