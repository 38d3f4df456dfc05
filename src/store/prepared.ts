import type { Compilable, Kysely, QueryResult } from 'kysely';
import type { Tables } from './tables.ts';

/** Runs a statement with fresh parameters, on the pool or inside a transaction. */
export type Prepared<Parameters, Row> = (executor: Kysely<Tables>, parameters: Parameters) => Promise<QueryResult<Row>>;

/**
 * Compiles a statement once. `build` receives stand-ins for the parameters and uses them as values:
 * `prepare((p: { id: string }) => kysely.selectFrom('tasks').where('id', '=', p.id).selectAll())`.
 */
export function prepare<Parameters extends object, Row>(
  build: (parameters: Parameters) => Compilable<Row>,
): Prepared<Parameters, Row> {
  const names = new Map<unknown, keyof Parameters>();
  const standIns = new Proxy({} as Parameters, {
    get(_target, name) {
      const standIn = Object.freeze({});
      names.set(standIn, name as keyof Parameters);
      return standIn;
    },
  });
  const compiled = build(standIns).compile();
  const slots = compiled.parameters.map((value) => ({ value, name: names.get(value) }));
  return (executor, parameters) =>
    executor.executeQuery<Row>({
      ...compiled,
      parameters: slots.map(({ value, name }) => (name === undefined ? value : parameters[name])),
    });
}
