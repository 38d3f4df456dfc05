import { CONFLICT, FORBIDDEN, ID_TAKEN, INVALID_ARGUMENT, NOT_FOUND } from '../errors.ts';
import { ownershipOf, withOwnership } from '../identity/ownership.ts';
import { createOwnershipRules, givesAccess } from '../identity/ownership-rules.ts';
import type { Principal } from '../identity/principal.ts';
import { chosenId } from '../ids.ts';
import type { JsonObject } from '../json.ts';
import type { Settings } from '../settings/types.ts';
import { UniqueViolation } from '../store/database.ts';
import type { Documents, StoredDocument, WriteOutcome } from '../store/documents.ts';
import { createTurns } from '../store/turns.ts';
import type { Audit } from '../telemetry/audit.ts';
import { optionalText } from './fields.ts';

const ACCESS_CONTROL = 'plugins.ml_commons.model_access_control_enabled';

export interface ModelGroups {
  register(principal: Principal, body: JsonObject): Promise<{ model_group_id: string; status: 'CREATED' }>;
  /** The document of `GET /model_groups/{id}`. @throws NOT_FOUND, FORBIDDEN */
  get(principal: Principal, id: string): Promise<JsonObject>;
  update(principal: Principal, id: string, body: JsonObject): Promise<{ status: 'Updated' }>;
  /** An unknown id is a `not_found` outcome, with access control NOT_FOUND. @throws CONFLICT (models belong to it), FORBIDDEN */
  delete(principal: Principal, id: string): Promise<WriteOutcome>;
}

/** What model registration needs of groups. */
export interface GroupVersions {
  /**
   * The id of the group of that name, made as `access` (a body) asks when there is none. Where the name is that of a group
   * the principal may not put models into, the group is named `<name> (<principal>)`.
   * @throws INVALID_ARGUMENT also when access is asked for a group that exists
   */
  named(principal: Principal, name: string, access: JsonObject): Promise<string>;
  /** Checks that a new model may go into the group. @throws NOT_FOUND, FORBIDDEN, INVALID_ARGUMENT when access is asked for */
  join(principal: Principal, id: string, access: JsonObject): Promise<void>;
  /** Whether there are groups the principal may be refused. */
  controls(principal: Principal): boolean;
  /** Refuses whom the group may not serve: models are shared as their group is. @throws NOT_FOUND, FORBIDDEN with `text` */
  require(principal: Principal, id: string, use: GroupUse, text: string): Promise<void>;
  /** Counts one more model in the group; answers the new `latest_version`. @throws NOT_FOUND */
  nextVersion(id: string): Promise<number>;
}

/**
 * `read`: who the group is shared with. `write` (its models are added, changed, deleted): the same, but administrators only
 * when nobody owns it.
 */
export type GroupUse = 'read' | 'write';

export interface ModelGroupsDeps {
  readonly documents: Documents;
  readonly settings: Pick<Settings, 'flag'>;
  readonly audit: Audit;
}

/** Model groups: a name for the versions of one model. Names are unique, which one turn at a time makes sure of. */
export function createModelGroups({ documents, settings, audit }: ModelGroupsDeps): ModelGroups & GroupVersions {
  const turns = createTurns();
  const accessControl = () => settings.flag(ACCESS_CONTROL);
  const ownership = createOwnershipRules({ enabled: accessControl, noun: 'model_group' });

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const pass = await turns.take();
    try {
      return await work();
    } finally {
      pass();
    }
  }

  async function insert(principal: Principal, id: string, group: JsonObject): Promise<void> {
    const name = group.name as string;
    try {
      await documents.insert('model_group', id, { name, body: group });
    } catch (error) {
      throw error instanceof UniqueViolation ? new ID_TAKEN('model group', id) : error;
    }
    await audit.record({ principal: principal.id, action: 'model_group.register', outcome: 'ok', detail: id });
  }

  async function load(id: string): Promise<StoredDocument> {
    const stored = await documents.get('model_group', id);
    if (stored === undefined) throw notFound(id);
    return stored;
  }

  function allows(principal: Principal, { body }: StoredDocument, use: GroupUse): boolean {
    const kept = ownershipOf(body);
    if (ownership.owned(principal, kept)) return true;
    return ownership.visible(principal, kept) && (use === 'read' || kept.owner_id !== undefined);
  }

  /** The id of a group that is not the caller's to see is not told. */
  function nameTaken(principal: Principal, whose: string, taken: StoredDocument): Error {
    const name = 'The name you provided is already being used by';
    if (allows(principal, taken, 'read')) return new INVALID_ARGUMENT(`${name} ${whose} with ID: ${taken.id}.`);
    return new INVALID_ARGUMENT(`${name} another model group. Please provide a different name.`);
  }

  return {
    async register(principal, body) {
      const name = optionalText(body, 'name');
      if (name === undefined || name.trim() === '') throw new INVALID_ARGUMENT('model group name is null');
      const kept = ownership.forNew(principal, body);
      const id = chosenId('model group', body.model_group_id);
      const description = optionalText(body, 'description');
      await inTurn(async () => {
        const taken = await documents.findByName('model_group', name);
        if (taken !== undefined) throw nameTaken(principal, 'a model group', taken);
        const group = { name, latest_version: 0, ...(description === undefined ? {} : { description }) };
        await insert(principal, id, withOwnership(group, kept));
      });
      return { model_group_id: id, status: 'CREATED' };
    },

    async get(principal, id) {
      const stored = await load(id);
      if (!allows(principal, stored, 'read')) {
        throw new FORBIDDEN("User doesn't have privilege to perform this operation on this model group");
      }
      const { body, createdTime, lastUpdatedTime } = stored;
      const shared = { access: 'public', ...ownership.shown(ownershipOf(body)) };
      return { ...withOwnership(body, {}), ...shared, created_time: createdTime, last_updated_time: lastUpdatedTime };
    },

    async update(principal, id, body) {
      const name = optionalText(body, 'name');
      if (name?.trim() === '') throw new INVALID_ARGUMENT('model group name is null');
      const description = optionalText(body, 'description');
      await inTurn(async () => {
        const stored = await load(id);
        if (!ownership.owned(principal, ownershipOf(stored.body))) {
          throw new FORBIDDEN("You don't have permissions to perform this operation on this model group.");
        }
        const kept = ownership.forUpdate(principal, ownershipOf(stored.body), body);
        const taken = name === undefined ? undefined : await documents.findByName('model_group', name);
        if (taken !== undefined && taken.id !== id) throw nameTaken(principal, 'another model', taken);
        await documents.update('model_group', id, (current) => ({
          ...nameOf(name ?? current.name),
          body: withOwnership(
            {
              ...current.body,
              ...(name === undefined ? {} : { name }),
              ...(description === undefined ? {} : { description }),
            },
            kept,
          ),
        }));
      });
      await audit.record({ principal: principal.id, action: 'model_group.update', outcome: 'ok', detail: id });
      return { status: 'Updated' };
    },

    async delete(principal, id) {
      if (accessControl() && !ownership.owned(principal, ownershipOf((await load(id)).body))) {
        throw new FORBIDDEN("User doesn't have privilege to delete this model group");
      }
      const models = await documents.referencing('model', { kind: 'model_group', id });
      if (models.length > 0) {
        throw new CONFLICT('Cannot delete the model group when it has associated model versions');
      }
      const outcome = await documents.delete('model_group', id);
      await audit.record({
        principal: principal.id,
        action: 'model_group.delete',
        outcome: outcome.result,
        detail: id,
      });
      return outcome;
    },

    controls: (principal) => accessControl() && !principal.access.admin,

    async require(principal, id, use, text) {
      if (!allows(principal, await load(id), use)) throw new FORBIDDEN(text);
    },

    async join(principal, id, access) {
      if (givesAccess(access)) {
        ownership.forNew(principal, access);
        throw accessOfAnother(id);
      }
      if (allows(principal, await load(id), 'write')) return;
      throw new FORBIDDEN("You don't have permissions to perform this operation on this model.");
    },

    named(principal, name, access) {
      const kept = ownership.forNew(principal, access);
      return inTurn(async () => {
        for (const candidate of [name, `${name} (${principal.name})`]) {
          const known = await documents.findByName('model_group', candidate);
          if (known === undefined) {
            const id = chosenId('model group', undefined);
            await insert(principal, id, withOwnership({ name: candidate, latest_version: 0 }, kept));
            return id;
          }
          if (!allows(principal, known, 'write')) continue;
          if (givesAccess(access)) throw accessOfAnother(known.id);
          return known.id;
        }
        throw new INVALID_ARGUMENT(
          'The name you provided is already being used by another model group. Please provide a different name.',
        );
      });
    },

    async nextVersion(id) {
      let version = 0;
      await documents.update('model_group', id, (current) => {
        version = Number(current.body.latest_version) + 1;
        return { ...nameOf(current.name), body: { ...current.body, latest_version: version } };
      });
      if (version === 0) throw notFound(id);
      return version;
    },
  };
}

function nameOf(name: string | undefined): { name?: string } {
  return name === undefined ? {} : { name };
}

function notFound(id: string): Error {
  return new NOT_FOUND(`Failed to find model group with the provided model group id: ${id}`);
}

/** Access is asked for a model whose group is there already. */
function accessOfAnother(groupId: string): Error {
  return new INVALID_ARGUMENT(
    `The model is shared as its model group ${groupId} is: give access_mode, backend_roles and add_all_backend_roles to the model group.`,
  );
}
