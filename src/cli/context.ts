import type { Command } from 'commander';
import type { JsonObject, JsonValue } from '../json.ts';
import type { Api } from './api.ts';
import { CommandFailure, EXIT } from './failure.ts';
import { jsonText } from './output.ts';
import type { Terminal } from './password.ts';

/** What the verbs share. */
export interface CommandContext {
  readonly api: Api;
  readonly terminal: Terminal;
  /** To standard output: the result and nothing else. */
  say(text: string): void;
  /** To standard error: what a script does not read. */
  note(text: string): void;
}

/** Options of every verb. */
export interface CommonOptions {
  readonly json?: boolean;
}

/** Adds one verb below another. */
export function verb(parent: Command, usage: string, description: string): Command {
  return parent.command(usage).description(description).option('--json', "print the server's answer as JSON");
}

/** Prints the answer as JSON where that was asked for, else the text made of it. */
export function show(context: CommandContext, options: CommonOptions, answer: JsonValue, text: () => string): void {
  context.say(options.json ? jsonText(answer) : text());
}

/** For options that may be given several times. */
export function collect(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}

/** The records of an answer that holds one for each name. */
export function named(answer: JsonObject): [name: string, record: JsonObject][] {
  return Object.entries(answer) as [string, JsonObject][];
}

/** One segment of a path. @throws CommandFailure for the two names that walk up a path, however they are written */
export function segment(name: string): string {
  if (name === '.' || name === '..') throw new CommandFailure(`${name} is no id and no name`, EXIT.usage);
  return encodeURIComponent(name);
}
