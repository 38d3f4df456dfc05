/** A process of its own that opens the database and migrates it: `node --import tsx migrate-process.ts <JSON>`. */
import { type DatabaseOptions, openDatabase } from '../../src/store/database.ts';
import { migrate } from '../../src/store/migrator.ts';

const { options, folder } = JSON.parse(process.argv[2] ?? '{}') as { options: DatabaseOptions; folder: string };
const database = await openDatabase(options);
const applied = await migrate(database, { folder, mode: 'check' });
await database.close();
console.log(JSON.stringify(applied));
