import { CONFLICT, ID_TAKEN, INVALID_ARGUMENT, NOT_FOUND } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import { chosenId } from '../ids.ts';
import type { JsonObject } from '../json.ts';
import { UniqueViolation } from '../store/database.ts';
import type { Documents, WriteOutcome } from '../store/documents.ts';
import { createTurns } from '../store/turns.ts';
import type { Audit } from '../telemetry/audit.ts';
import { optionalText, refuseAccessParameters } from './fields.ts';

export interface ModelGroups {
  register(principal: Principal, body: JsonObject): Promise<{ model_group_id: string; status: 'CREATED' }>;
  /** The document of `GET /model_groups/{id}`. @throws NOT_FOUND */
  get(principal: Principal, id: string): Promise<JsonObject>;
  update(principal: Principal, id: string, body: JsonObject): Promise<{ status: 'Updated' }>;
  /** @throws CONFLICT while models belong to it. An unknown id is a `not_found` outcome. */
  delete(principal: Principal, id: string): Promise<WriteOutcome>;
}

/** What model registration needs of groups. */
export interface GroupVersions {
  /** The id of the group of that name, made when there is none. */
  named(principal: Principal, name: string): Promise<string>;
  /** @throws NOT_FOUND */
  require(id: string): Promise<void>;
  /** Counts one more model in the group; answers the new `latest_version`. @throws NOT_FOUND */
  nextVersion(id: string): Promise<number>;
}

export interface ModelGroupsDeps {
  readonly documents: Documents;
  readonly audit: Audit;
}

/** Model groups: a name for the versions of one model. Names are unique, which one turn at a time makes sure of. */
export function createModelGroups({ documents, audit }: ModelGroupsDeps): ModelGroups & GroupVersions {
  const turns = createTurns();

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

  async function require(id: string): Promise<void> {
    if ((await documents.get('model_group', id)) === undefined) throw notFound(id);
  }

  return {
    async register(principal, body) {
      const name = optionalText(body, 'name');
      if (name === undefined || name.trim() === '') throw new INVALID_ARGUMENT('model group name is null');
      refuseAccessParameters(body);
      const id = chosenId('model group', body.model_group_id);
      const description = optionalText(body, 'description');
      await inTurn(async () => {
        const taken = await documents.findByName('model_group', name);
        if (taken !== undefined) throw nameTaken('a model group', taken.id);
        await insert(principal, id, {
          name,
          latest_version: 0,
          ...(description === undefined ? {} : { description }),
        });
      });
      return { model_group_id: id, status: 'CREATED' };
    },

    async get(_principal, id) {
      const stored = await documents.get('model_group', id);
      if (stored === undefined) throw notFound(id);
      const { createdTime, lastUpdatedTime } = stored;
      return { ...stored.body, access: 'public', created_time: createdTime, last_updated_time: lastUpdatedTime };
    },

    async update(principal, id, body) {
      const name = optionalText(body, 'name');
      if (name?.trim() === '') throw new INVALID_ARGUMENT('model group name is null');
      refuseAccessParameters(body);
      const description = optionalText(body, 'description');
      await inTurn(async () => {
        await require(id);
        const taken = name === undefined ? undefined : await documents.findByName('model_group', name);
        if (taken !== undefined && taken.id !== id) throw nameTaken('another model', taken.id);
        await documents.update('model_group', id, (current) => ({
          ...nameOf(name ?? current.name),
          body: {
            ...current.body,
            ...(name === undefined ? {} : { name }),
            ...(description === undefined ? {} : { description }),
          },
        }));
      });
      await audit.record({ principal: principal.id, action: 'model_group.update', outcome: 'ok', detail: id });
      return { status: 'Updated' };
    },

    async delete(principal, id) {
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

    require,

    named(principal, name) {
      return inTurn(async () => {
        const known = await documents.findByName('model_group', name);
        if (known !== undefined) return known.id;
        const id = chosenId('model group', undefined);
        await insert(principal, id, { name, latest_version: 0 });
        return id;
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

function nameTaken(whose: string, id: string): Error {
  return new INVALID_ARGUMENT(`The name you provided is already being used by ${whose} with ID: ${id}.`);
}
