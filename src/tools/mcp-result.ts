import { isJsonObject, type JsonObject } from '../json.ts';
import type { McpCallResult } from '../mcp/types.ts';
import { unsmuggled } from '../mcp/visible-text.ts';

/**
 * What a model reads of the result of an MCP call: texts and text resources inline, links as uri, name and type, media
 * as a note with type and size and never as base64, `structuredContent` where nothing else has any text.
 */
export function resultText(result: McpCallResult): string {
  const parts = result.content.map(partText);
  const hasText = parts.some((part) => part.inline && part.text.trim() !== '');
  const texts = parts.map((part) => part.text).filter((text) => text !== '');
  if (!hasText && result.structuredContent !== undefined) texts.unshift(JSON.stringify(result.structuredContent));
  if (texts.length > 0) return unsmuggled(texts.join('\n'));
  return result.isError ? 'the tool failed and gave no reason' : '(the tool returned no content)';
}

/** A media type without parameters (RFC 6838 section 4.2). */
const MEDIA_TYPE = /^[A-Za-z0-9][\w!#$&^.+-]{0,126}\/[A-Za-z0-9][\w!#$&^.+-]{0,126}$/;

interface PartText {
  readonly text: string;
  /** The part's own text, not a note about it. */
  readonly inline: boolean;
}

function partText(part: JsonObject): PartText {
  switch (part.type) {
    case 'text':
      return { text: typeof part.text === 'string' ? part.text : '', inline: true };
    case 'image':
    case 'audio':
      return note(`${part.type} ${mediaNote(part.mimeType, part.data)}`);
    case 'resource':
      return resourceText(isJsonObject(part.resource) ? part.resource : {});
    case 'resource_link':
      return note(words('link', part.uri, part.name, part.mimeType));
    default:
      return note(`content of unknown type ${typeof part.type === 'string' ? part.type.slice(0, 64) : 'none'}`);
  }
}

function resourceText(resource: JsonObject): PartText {
  if (typeof resource.text === 'string') return { text: resource.text, inline: true };
  return note(words('resource', resource.uri, mediaNote(resource.mimeType, resource.blob)));
}

function note(text: string): PartText {
  return { text: `[${text}]`, inline: false };
}

function words(...values: unknown[]): string {
  return values.filter((value) => typeof value === 'string' && value !== '').join(' ');
}

function mediaNote(mimeType: unknown, base64: unknown): string {
  const type = typeof mimeType === 'string' && MEDIA_TYPE.test(mimeType) ? mimeType : 'of unknown type';
  if (typeof base64 !== 'string') return `${type}, no data`;
  return `${type}, ${Buffer.byteLength(base64, 'base64')} bytes, not shown`;
}
