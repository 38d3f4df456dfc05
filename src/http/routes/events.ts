import { Readable } from 'node:stream';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Connectors } from '../../connectors/types.ts';
import { INVALID_ARGUMENT, THROTTLED } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import { EventsQuery } from '../../schemas/events.ts';
import type { EventBus, EventSubscription, NumberedEvent } from '../../telemetry/event-bus.ts';
import type { EventType } from '../../telemetry/events.ts';
import { queryText } from '../query.ts';

export interface EventRoutesOptions {
  readonly events: EventBus;
  readonly connectors: Pick<Connectors, 'find' | 'visible'>;
}

const TYPES: readonly EventType[] = ['connection', 'tools', 'run', 'request', 'pin'];
const HEARTBEAT_MS = 15_000;
/** Then the reader comes back by itself, and shows once more who it is. */
const LONGEST_MS = 900_000;
const RETRY_MS = 3000;
const MAX_READERS = 200;
/** How long one who does not read may hold on to its last words. */
const FLUSH_MS = 10_000;

/** What happens on the platform, as server-sent events (WHATWG HTML 9.2), below the prefix of the API. */
export const eventRoutes: FastifyPluginAsyncTypebox<EventRoutesOptions> = async (app, { events, connectors }) => {
  async function maySee(principal: Principal, { scope }: NumberedEvent): Promise<boolean> {
    if (principal.access.admin) return true;
    const { connectorId, owner } = scope;
    if (owner !== undefined && (owner === principal.id || owner === principal.owner)) return true;
    const connector = connectorId === undefined ? undefined : await connectors.find(connectorId);
    return connector !== undefined && connectors.visible(principal, connector);
  }

  async function* frames(
    subscription: EventSubscription,
    principal: Principal,
    types: ReadonlySet<string>,
  ): AsyncGenerator<string, void, undefined> {
    const until = performance.now() + LONGEST_MS;
    yield `retry: ${RETRY_MS}\n\n`;
    while (performance.now() < until) {
      const next = await subscription.next(HEARTBEAT_MS);
      if (next === 'ended') return;
      if (next === 'quiet') yield ': still here\n\n';
      else if (next === 'lost') yield `event: lost\ndata: ${LOST}\n\n`;
      else if (types.has(next.type) && (await maySee(principal, next))) {
        yield `id: ${next.id}\nevent: ${next.type}\ndata: ${next.text}\n\n`;
      }
    }
  }

  app.addHook('preClose', async () => events.close());

  app.get(
    '/events',
    {
      schema: { tags: ['events'], querystring: EventsQuery, produces: ['text/event-stream'] },
      config: { permission: 'events:read' },
    },
    async ({ principal, query, headers }, reply) => {
      const types = readTypes(query.types);
      if (events.readers() >= MAX_READERS) {
        throw new THROTTLED(`There are ${MAX_READERS} readers of events already; try again later`);
      }
      const after = lastEventId(headers['last-event-id']);
      const subscription = events.subscribe(after === undefined ? {} : { after });
      const stream = Readable.from(frames(subscription, principal, types), { objectMode: false });
      reply.raw.once('close', () => {
        subscription.close();
        stream.destroy();
      });
      void subscription.ended.then(() => setTimeout(() => reply.raw.destroy(), FLUSH_MS).unref());
      reply.header('cache-control', 'no-store').header('x-accel-buffering', 'no');
      return reply.type('text/event-stream').send(stream);
    },
  );
};

const LOST = JSON.stringify({
  reason:
    'Events before this one are missing: they were not read in time, or are no longer kept. Read the states anew.',
});

function readTypes(given: unknown): ReadonlySet<string> {
  const names = queryText(given)?.split(',') ?? TYPES;
  const unknown = names.find((name) => !TYPES.some((type) => type === name));
  if (unknown === undefined) return new Set(names);
  throw new INVALID_ARGUMENT(`types has '${unknown}', which is none of ${TYPES.join(', ')}`);
}

/** Another server's number, or none, is as if there had been none. */
function lastEventId(given: string | readonly string[] | undefined): number | undefined {
  return typeof given === 'string' && /^\d{1,16}$/.test(given) ? Number(given) : undefined;
}
