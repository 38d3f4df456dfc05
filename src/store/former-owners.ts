import type { Transaction } from 'kysely';
import type { JsonObject } from '../json.ts';
import type { DocumentKind } from './documents.ts';
import type { createSequences } from './sequences.ts';
import type { Tables } from './tables.ts';

const OWNED: readonly DocumentKind[] = ['connector', 'model', 'model_group'];

/**
 * Gives everything of an owner to another id, in the transaction of the caller. What a reader is shown stays: the name
 * of the owner in a document, versions and times.
 * @param next takes the place in line of writers of each kind of document
 */
export async function giveRecords(
  transaction: Transaction<Tables>,
  next: ReturnType<typeof createSequences>,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<void> {
  await transaction.updateTable('memories').set({ owner: to }).where('owner', '=', from).execute();
  await transaction.updateTable('tasks').set({ owner: to }).where('owner', '=', from).execute();
  await transaction.updateTable('api_keys').set({ owner: to }).where('owner', '=', from).execute();
  for (const kind of OWNED) {
    await next(transaction, kind);
    const rows = await transaction
      .selectFrom('documents')
      .select(['id', 'body'])
      .where('kind', '=', kind)
      .where('body', 'like', '%"owner_id"%')
      .execute();
    for (const { id, body } of rows) {
      const document = JSON.parse(body) as JsonObject;
      if (document.owner_id !== from) continue;
      await transaction
        .updateTable('documents')
        .set({ body: JSON.stringify({ ...document, owner_id: to }) })
        .where('kind', '=', kind)
        .where('id', '=', id)
        .execute();
    }
  }
}
