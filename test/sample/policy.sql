-- The policy of the sample, in the language of the bundled instance.
SELECT verdict_set_policy($policy$
// A file-sharing application: who may do what with a document or a folder.

// An administrator may do everything with everything.
allow(user: User, _, _)      if is_admin(user);

// Everybody else by their role, unless banned from just this document.
allow(actor, "read", item)   if viewer(actor, item) and not banned(actor, item);
allow(actor, "write", item)  if editor(actor, item) and not banned(actor, item);

// Roles: owning is editing, editing is viewing.
editor(actor, item)          if is_owner(actor, item);
viewer(actor, item)          if editor(actor, item);

// Roles of a team are roles of its members.
editor(actor, item)          if team_editor(team, item) and member(actor, team);
viewer(actor, item)          if team_viewer(team, item) and member(actor, team);

// Roles on a folder hold for all that is in it, however deep.
editor(actor, item)          if parent(item, folder) and editor(actor, folder);
viewer(actor, item)          if parent(item, folder) and viewer(actor, folder);
$policy$);
