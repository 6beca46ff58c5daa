"""A BEIR folder of three topics, on which a left-out one can be planted to lose."""

import json
from pathlib import Path

TOPICS = {
    "stone": "granite marble basalt slate",
    "plant": "tulip willow clover bamboo",
    "sky": "comet nebula quasar aurora",
}


def write_topics(folder: Path) -> str:
    """48 training and 24 test queries, a passage each; returns the spec."""
    queries, judged = [], {"train": [], "test": []}
    for topic, words in TOPICS.items():
        for word in words.split():
            for at in range(6):
                name = f"{topic}-{word}-{at}"
                queries.append(
                    {
                        "_id": name,
                        "text": f"which {topic} is {word} number {at}",
                        "metadata": {"topic": topic},
                    }
                )
                judged["train" if at < 4 else "test"].append(f"{name}\tp-{name}\t1")
    (folder / "qrels").mkdir(parents=True)
    write = {
        "queries": queries,
        "corpus": [{"_id": f"p-{one['_id']}", "text": f"About {one['text']}"} for one in queries],
    }
    for name, rows in write.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for split, lines in judged.items():
        (folder / "qrels" / f"{split}.tsv").write_text(
            "\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n"
        )
    return f"beir:{folder}"
