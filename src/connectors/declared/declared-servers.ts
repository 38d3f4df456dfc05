import { UpstreamError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Redactor } from '../../telemetry/redactor.ts';
import type { Connector, LocalServer } from '../types.ts';
import { type Declaration, declarationOf } from './declared-entry.ts';
import { type ConfigFile, readConfigFiles } from './declared-files.ts';
import type { Variables } from './declared-variables.ts';

/** The servers that the operator's configuration files declare, as they were at start. */
export interface DeclaredServers {
  /** In order of declaration. */
  readonly all: readonly Connector[];
  find(id: string): Connector | undefined;
  /** As `GET` shows it. */
  document(id: string): JsonObject | undefined;
  /** Address and ready headers of a remote server. @throws UpstreamError its problem */
  endpoint(connector: Connector): { readonly url: string; readonly headers: Readonly<Record<string, string>> };
  /** @throws UpstreamError its problem */
  local(connector: Connector): LocalServer;
}

export interface DeclaredServersDeps {
  /** From the weakest to the strongest: a later entry replaces an earlier one of its name. */
  readonly files: readonly ConfigFile[];
  readonly variables: Variables;
  readonly redactor: Pick<Redactor, 'clean' | 'taint'>;
  readonly log: Logger;
}

/**
 * Reads the configuration files once. A bad entry is a server with a problem.
 * @throws StartupError when a file is missing that was asked for, cannot be read, or is no JSON object
 */
export async function readDeclaredServers(deps: DeclaredServersDeps): Promise<DeclaredServers> {
  const { files, variables, log } = deps;
  const declarations = (await readConfigFiles(files, log)).map((entry) => declarationOf(entry, variables));
  for (const { connector, secrets, warnings } of declarations) {
    deps.redactor.taint(secrets);
    for (const warning of warnings) {
      log.warn({ connectorId: connector.id }, `MCP server ${connector.name} of the configuration file: ${warning}`);
    }
  }
  return declaredServers(declarations, deps.redactor);
}

/** Servers by their ids. */
export function declaredServers(
  declarations: readonly Declaration[],
  redactor: Pick<Redactor, 'clean' | 'taint'>,
): DeclaredServers {
  const byId = new Map(declarations.map((declaration) => [declaration.connector.id, declaration]));

  /** The redactor forgets what was not used for long. */
  function usable<T>(connector: Connector, pick: (declaration: Declaration) => T | undefined): T {
    const declaration = byId.get(connector.id);
    const part = declaration && pick(declaration);
    if (declaration === undefined || part === undefined || connector.declared?.problem) throw problemOf(connector);
    redactor.taint(declaration.secrets);
    return part;
  }

  return {
    all: declarations.map(({ connector }) => connector),
    find: (id) => byId.get(id)?.connector,
    document(id) {
      const document = byId.get(id)?.document;
      if (!Array.isArray(document?.command)) return document;
      return { ...document, command: document.command.map((word) => redactor.clean(String(word))) };
    },
    endpoint: (connector) => usable(connector, ({ endpoint }) => endpoint),
    local: (connector) => usable(connector, ({ local }) => local),
  };
}

function problemOf({ name, declared }: Connector): UpstreamError {
  const problem = declared?.problem;
  return new UpstreamError({
    code: problem?.code ?? 'invalid_config',
    destination: `connector "${name}"`,
    message: problem?.message ?? `Connector "${name}" is not declared as such a server.`,
    ...(problem && { remedy: problem.remedy }),
    statusCode: 502,
    delivered: 'no',
  });
}
