/** The configuration of one process: read once from the environment, frozen, handed down by `app.ts`. */
export interface Config {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  /** `undefined`: SQLite in `dataDir`. */
  readonly databaseUrl: string | undefined;
  readonly publicUrl: string | undefined;
  readonly logLevel: string;
  readonly logFile: string | undefined;
  readonly apiKey: string | undefined;
  readonly keystore: 'env' | 'file' | 'command' | 'keychain' | undefined;
  readonly masterKey: string | undefined;
  readonly keyFile: string;
  readonly keyCommand: string | undefined;
  /** `undefined` when the variable is not set. */
  readonly trustedEndpoints: readonly string[] | undefined;
  readonly trustedPrivateEndpoints: readonly string[] | undefined;
  readonly openSearchUrl: string | undefined;
  readonly configFile: string;
  readonly globalConfigFile: string;
}
