import { CONFLICT } from '../errors.ts';
import type { Vault } from '../secrets/types.ts';
import type { Documents } from '../store/documents.ts';
import type { Redactor } from '../telemetry/redactor.ts';
import { originsOf } from './blueprint.ts';
import type { Connector } from './types.ts';

type Values = Readonly<Record<string, string>>;

export interface Credentials {
  /** Seals to the owner and the origins of the connector. */
  seal(connector: Connector, values: Values): string;
  /** Opens what is stored for the connector; empty when nothing is. @throws CONFLICT when the connector is outdated */
  open(connector: Connector): Promise<Values>;
  /** Makes sure the values appear in no log line and no reply. */
  taint(values: Values): void;
}

/** The id of a connector that is stored inside a model is its owner: `model/<id>`. */
function ownerOf({ id }: Connector): { kind: 'connector' | 'model'; id: string; owner: string } {
  return id.startsWith('model/')
    ? { kind: 'model', id: id.slice('model/'.length), owner: id }
    : { kind: 'connector', id, owner: `connector/${id}` };
}

/** Credentials of connectors: sealed in the store, plain only while a request is rendered. */
export function createCredentials(deps: { documents: Documents; vault: Vault; redactor: Redactor }): Credentials {
  const { documents, vault, redactor } = deps;
  return {
    seal: (connector, values) => vault.seal(values, { owner: ownerOf(connector).owner, origins: originsOf(connector) }),
    taint: (values) => redactor.taint(Object.values(values)),
    open: async (connector) => {
      const { kind, id, owner } = ownerOf(connector);
      const sealed = await documents.sealedCredential(kind, id);
      if (sealed === undefined) return {};
      try {
        const values = vault.open(sealed, { owner, origins: originsOf(connector) });
        redactor.taint(Object.values(values));
        return values;
      } catch (error) {
        const current = await documents.get(kind, id);
        const revision = kind === 'connector' ? current?.seqNo : current?.version;
        if (revision === connector.revision) throw error;
        throw new CONFLICT(`Connector ${connector.name} was changed while the request was prepared. Send it again.`);
      }
    },
  };
}
