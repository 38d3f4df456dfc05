import type { FastifyInstance, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { INVALID_ARGUMENT } from '../../errors.ts';
import { parseJson } from '../../json.ts';
import { filterFault, filterPath } from '../filter-path.ts';
import { queryText, truthy } from '../query.ts';

/** The media type of every JSON answer, and the server-wide query parameters `pretty` and `filter_path`. */
export const responsesPlugin = fastifyPlugin(async (app: FastifyInstance) => {
  app.addHook('preValidation', async (request) => {
    const fault = filterFault(filterOf(request));
    if (fault !== undefined) throw new INVALID_ARGUMENT(fault);
  });

  app.addHook('onSend', async (request, reply, payload) => {
    if (!String(reply.getHeader('content-type') ?? '').startsWith('application/json')) return payload;
    reply.header('content-type', 'application/json; charset=UTF-8');
    const { pretty } = (request.query ?? {}) as Record<string, unknown>;
    const given = filterOf(request);
    // What is refused is not applied to the refusal, nor to an answer that is older than the check.
    const expression = filterFault(given) === undefined ? given : '';
    if (typeof payload !== 'string' || (!truthy(pretty) && expression === '')) return payload;
    const value = parseJson(payload);
    if (value === undefined) return payload;
    const shown = expression === '' ? value : filterPath(value, expression);
    const text = truthy(pretty) ? `${JSON.stringify(shown, null, 2)}\n` : JSON.stringify(shown);
    reply.header('content-length', Buffer.byteLength(text));
    return text;
  });
});

function filterOf(request: FastifyRequest): string {
  const { filter_path: path } = (request.query ?? {}) as Record<string, unknown>;
  return queryText(path) ?? '';
}
