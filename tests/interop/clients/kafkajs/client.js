// kafkajs: does the named operations, and says of each in one line how it went.

const { Kafka, CompressionTypes, logLevel } = require("kafkajs");

const [bootstrap, topic, limit, ...operations] = process.argv.slice(2);
const RECORDS = 20;
const FIRST_TIME_MS = 1700000000000;
const kafka = new Kafka({ clientId: "kafkajs", brokers: bootstrap.split(","), logLevel: logLevel.NOTHING });

async function within(made, use) {
  await made.connect();
  try {
    return await use(made);
  } finally {
    await made.disconnect();
  }
}

const admin = (use) => within(kafka.admin(), use);
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));

async function produce({ compression = CompressionTypes.None, acks = -1, idempotent = false }) {
  const messages = [...Array(RECORDS).keys()].map((number) => ({
    partition: 0,
    value: `value ${number}`,
    timestamp: String(FIRST_TIME_MS + number),
  }));
  await within(kafka.producer({ idempotent }), (producer) => producer.send({ topic, messages, acks, compression }));
  return `${RECORDS} records`;
}

async function consume(groupId) {
  const consumer = kafka.consumer({ groupId });
  let crash;
  const crashed = new Promise((_, reject) => (crash = reject));
  consumer.on(consumer.events.CRASH, ({ payload }) => crash(payload.error));
  await consumer.connect();
  try {
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    const got = new Promise((resolve, reject) =>
      consumer.run({ eachMessage: async () => resolve("records") }).catch(reject));
    return await Promise.race([got, crashed]);
  } finally {
    await consumer.disconnect();
  }
}

const perform = {
  topics: () => admin(async (it) => {
    await it.createTopics({ topics: [
      { topic, numPartitions: 1, replicationFactor: 3 },
      { topic: `${topic}.gone`, numPartitions: 1, replicationFactor: 1 },
    ] });
    await it.deleteTopics({ topics: [`${topic}.gone`] });
    for (;;) {
      const names = await it.listTopics();
      if (names.includes(topic) && !names.includes(`${topic}.gone`)) return "created, deleted, listed";
      await pause();
    }
  }),
  partitions: () => admin(async (it) => {
    await it.createPartitions({ topicPartitions: [{ topic, count: 3 }] });
    return "increased to 3";
  }),
  alter: () => admin(async (it) => {
    await it.alterConfigs({
      validateOnly: false,
      resources: [{ type: 2, name: topic, configEntries: [{ name: "retention.ms", value: "-1" }] }],
    });
    return "altered";
  }),
  configuration: () => admin(async (it) => {
    await it.describeConfigs({ resources: [{ type: 2, name: topic }], includeSynonyms: false });
    return "described";
  }),
  time: () => admin(async (it) => {
    const found = await it.fetchTopicOffsetsByTimestamp(topic, FIRST_TIME_MS + 5);
    return `offset ${found.find((each) => each.partition === 0).offset}`;
  }),
  idempotent: () => produce({ idempotent: true }),
  group: () => consume(`${topic}-group`),
  transaction: () => within(kafka.producer({ idempotent: true, transactionalId: "somebody" }), async (producer) => {
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: [{ value: "value" }] });
    await transaction.commit();
    return "committed";
  }),
};
for (const acks of ["0", "1", "all"]) perform[`acks-${acks}`] = () => produce({ acks: acks === "all" ? -1 : Number(acks) });
perform["codec-none"] = () => produce({});
perform["codec-gzip"] = () => produce({ compression: CompressionTypes.GZIP });

async function main() {
  for (const operation of operations) {
    const begun = Date.now();
    let outcome = "lacks\t";
    if (perform[operation]) {
      let timer;
      const tooLate = new Promise((resolve) => (timer = setTimeout(() => resolve("hangs\t"), limit * 1000)));
      outcome = await Promise.race([
        perform[operation]().then((told) => `ok\t${told}`, (error) => `fails\t${error.name}: ${error.message}`),
        tooLate,
      ]);
      clearTimeout(timer);
    }
    console.log(`${operation}\t${((Date.now() - begun) / 1000).toFixed(1)}\t${outcome.replaceAll("\n", " ")}`);
  }
  process.exit(0); // what hangs must not keep the process
}

main();
